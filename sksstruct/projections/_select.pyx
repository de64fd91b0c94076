"""Selection of the k-th smallest number, in expected linear time.

Hoare's quickselect ("Algorithm 65: Find", CACM 4(7), 1961): partition the numbers about
a pivot and continue with the side that contains the k-th. The pivot is the median of
the first, the middle and the last number, so that sorted input is no worst case.
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
    """Put three numbers in increasing order; return the middle one."""
    order(first, middle)
    order(first, last)
    order(middle, last)
    return middle[0]


cdef double select_kth(double* numbers, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """Return the k-th smallest number; the numbers are reordered."""
    cdef Py_ssize_t low = 0, high = n - 1, left, right, middle
    cdef double pivot
    # invariant: the k-th smallest is one of numbers[low:high + 1]
    while low < high:
        middle = (low + high) // 2
        pivot = put_in_order(numbers + low, numbers + middle, numbers + high)
        # The smallest and the largest of the three numbers stop the two scans, which
        # therefore need no bounds checks. Numbers equal to the pivot are exchanged,
        # too: with many equal numbers, the scans meet in the middle and not at one end.
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
        # numbers up to `right` are at most the pivot, numbers from `left` on at least
        # the pivot, and numbers between the two equal to it
        if k <= right:
            high = right
        elif k >= left:
            low = left
        else:
            break
    return numbers[k]
