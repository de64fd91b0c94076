"""Selection of the k-th smallest number."""


cdef inline void order(double* a, double* b) noexcept nogil:
    cdef double t
    if b[0] < a[0]:
        t = a[0]
        a[0] = b[0]
        b[0] = t


cdef double select_kth(double* x, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """The k-th smallest entry, by Hoare's quickselect with the median of three.

    Entries are put in another order.
    """
    cdef Py_ssize_t low = 0, high = n - 1, i, j, middle
    cdef double pivot, t
    while low < high:
        middle = (low + high) // 2
        order(x + low, x + middle)
        order(x + low, x + high)
        order(x + middle, x + high)
        pivot = x[middle]
        i, j = low, high
        while i <= j:
            while x[i] < pivot:
                i += 1
            while pivot < x[j]:
                j -= 1
            if i <= j:
                t = x[i]
                x[i] = x[j]
                x[j] = t
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return x[k]
