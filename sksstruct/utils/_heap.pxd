# Binary heaps of numbered items: items[0] comes first, and items[k] comes after neither
# of its children items[2k + 1] and items[2k + 2] (Williams, 1964).
#
# A heap stores numbers of items only. The values of items are in arrays of the caller,
# so that an item may be in several heaps; after changing a value, the caller calls
# `restore`. Items of equal value have no defined order unless `by_number` is set. Push
# and pop take O(log size) comparisons, and move one number per level.

from libc.stdint cimport int32_t


cdef struct Heap:
    int32_t* items
    Py_ssize_t size
    Py_ssize_t capacity     # number of items with memory; see `reserve` in _memory.pxd


cdef struct HeapOrder:
    const double* values    # value of each item; the largest comes first
    bint by_number          # whether the lower number comes first among equal values
    # index in Heap.items of each item, updated by all functions; NULL if not needed
    int32_t* places
    Py_ssize_t stride       # the place of an item is places[stride * item]


cdef inline bint precedes(const HeapOrder* order, int32_t first,
                          int32_t second) noexcept nogil:
    """Whether the item `first` comes before the item `second`."""
    if order.values[first] > order.values[second]:
        return True
    return (order.by_number and order.values[first] == order.values[second]
            and first < second)


cdef inline void put_item(Heap* heap, const HeapOrder* order, int32_t item,
                          Py_ssize_t place) noexcept nogil:
    """Write an item to items[place], and `place` to the item's entry in `places`."""
    heap.items[place] = item
    if order.places != NULL:
        order.places[order.stride * item] = <int32_t> place


cdef inline Py_ssize_t rise(Heap* heap, const HeapOrder* order, int32_t item,
                            Py_ssize_t place) noexcept nogil:
    """Return the place at or above `place` where an item belongs, moving parents down.

    The caller writes the item to the returned place.
    """
    cdef Py_ssize_t parent
    while place > 0:
        parent = (place - 1) // 2
        if not precedes(order, item, heap.items[parent]):
            break
        put_item(heap, order, heap.items[parent], place)
        place = parent
    return place


cdef inline Py_ssize_t sink(Heap* heap, const HeapOrder* order, int32_t item,
                            Py_ssize_t place) noexcept nogil:
    """Return the place at or below `place` where an item belongs, moving children up.

    The caller writes the item to the returned place.
    """
    cdef Py_ssize_t child = 2 * place + 1
    while child < heap.size:
        if child + 1 < heap.size and precedes(order, heap.items[child + 1],
                                              heap.items[child]):
            child += 1
        if not precedes(order, heap.items[child], item):
            break
        put_item(heap, order, heap.items[child], place)
        place = child
        child = 2 * place + 1
    return place


cdef inline void restore(Heap* heap, const HeapOrder* order,
                         Py_ssize_t place) noexcept nogil:
    """Restore the order of the heap after the value of the item at a place changed."""
    cdef int32_t item = heap.items[place]
    # at most one of `rise` and `sink` moves items
    place = rise(heap, order, item, place)
    put_item(heap, order, item, sink(heap, order, item, place))


cdef inline void push(Heap* heap, const HeapOrder* order,
                      int32_t item) noexcept nogil:
    """Add an item to a heap in which the caller has reserved memory for it."""
    heap.size += 1
    put_item(heap, order, item, rise(heap, order, item, heap.size - 1))


cdef inline void pop(Heap* heap, const HeapOrder* order) noexcept nogil:
    """Remove the first item of a heap that is not empty."""
    cdef int32_t last
    heap.size -= 1
    # move the last item to the place of the removed one
    last = heap.items[heap.size]
    if heap.size:
        put_item(heap, order, last, sink(heap, order, last, 0))
