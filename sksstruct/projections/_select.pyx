"""Selection of the k-th smallest number, in expected linear time.

Hoare's quickselect ("Algorithm 65: Find", CACM 4(7), 1961): partition the numbers about
a pivot and go on with the side that has the k-th. The pivot is the median of the first,
the middle and the last, so that sorted input is no bad case.
"""


cdef inline void swap(double* one, double* other) noexcept nogil:
    """Exchange two numbers."""
    cdef double value = one[0]
    one[0] = other[0]
    other[0] = value


cdef inline void order(double* one, double* other) noexcept nogil:
    """Put two numbers in increasing order."""
    if other[0] < one[0]:
        swap(one, other)


cdef inline double put_in_order(double* first, double* middle,
                                double* last) noexcept nogil:
    """Put three numbers in increasing order; returns the one in the middle."""
    order(first, middle)
    order(first, last)
    order(middle, last)
    return middle[0]


cdef double select_kth(double* numbers, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """The k-th smallest entry. Entries are put in another order."""
    cdef Py_ssize_t low = 0, high = n - 1, left, right, middle
    cdef double pivot
    # The k-th smallest is one of numbers[low:high + 1].
    while low < high:
        middle = (low + high) // 2
        pivot = put_in_order(numbers + low, numbers + middle, numbers + high)
        # The smallest and the largest of the three stop the two scans, which therefore
        # need no bounds. Numbers equal to the pivot are exchanged as well: among many
        # of them the scans meet in the middle, and not at one end.
        left, right = low, high
        while left <= right:
            while numbers[left] < pivot:
                left += 1
            while pivot < numbers[right]:
                right -= 1
            if left <= right:
                swap(numbers + left, numbers + right)
                left += 1
                right -= 1
        # Up to `right` numbers are at most the pivot, from `left` on they are at least
        # the pivot, and any between the two are equal to it.
        if k <= right:
            high = right
        elif k >= left:
            low = left
        else:
            break
    return numbers[k]
