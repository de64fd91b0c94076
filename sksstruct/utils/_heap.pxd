# Binary heaps of numbered items: the item that comes first is at items[0], and items[k]
# comes after neither of its children items[2k + 1] and items[2k + 2] (Williams, 1964).
#
# A heap holds numbers only. What they are worth is in arrays of the owner, so that an
# item may be in several heaps, and may change its value there: who changes it calls
# `restore`. Equal values keep the order in which they came to lie, unless the numbers
# decide. Push and pop cost O(log size) comparisons, and move one number per level.

from libc.stdint cimport int32_t


cdef struct Heap:
    int32_t* items
    Py_ssize_t size
    Py_ssize_t capacity     # that items has memory for; see `reserve` in _memory.pxd


cdef struct HeapOrder:
    const double* values    # of the items; the largest comes first
    bint by_number          # whether the lower number comes first among equal values
    int32_t* places         # of the items in the heap, written; NULL: nobody asks
    Py_ssize_t stride       # the place of an item is places[stride * item]


cdef inline bint precedes(const HeapOrder* order, int32_t first,
                          int32_t second) noexcept nogil:
    """Whether one item comes before another."""
    if order.values[first] > order.values[second]:
        return True
    return (order.by_number and order.values[first] == order.values[second]
            and first < second)


cdef inline void put_item(Heap* heap, const HeapOrder* order, int32_t item,
                          Py_ssize_t place) noexcept nogil:
    """Write an item to a place."""
    heap.items[place] = item
    if order.places != NULL:
        order.places[order.stride * item] = <int32_t> place


cdef inline Py_ssize_t rise(Heap* heap, const HeapOrder* order, int32_t item,
                            Py_ssize_t place) noexcept nogil:
    """Where an item that belongs at a place or above it goes; the others make way.

    The place on return may be written to: what was there has moved down.
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
    """Where an item that belongs at a place or below it goes; the others make way.

    The place on return may be written to: what was there has moved up.
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
    """Move the item at a place, whose value was changed, to where it belongs."""
    cdef int32_t item = heap.items[place]
    # one of the two moves nothing
    place = rise(heap, order, item, place)
    put_item(heap, order, item, sink(heap, order, item, place))


cdef inline void push(Heap* heap, const HeapOrder* order,
                      int32_t item) noexcept nogil:
    """Add an item; the owner has seen to the capacity."""
    heap.size += 1
    put_item(heap, order, item, rise(heap, order, item, heap.size - 1))


cdef inline void pop(Heap* heap, const HeapOrder* order) noexcept nogil:
    """Remove the first item; there is one."""
    cdef int32_t last
    heap.size -= 1
    # the last item fills the hole, so that the heap has none
    last = heap.items[heap.size]
    if heap.size:
        put_item(heap, order, last, sink(heap, order, last, 0))
