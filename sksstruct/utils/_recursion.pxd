# Recursion over users' data, which may contain themselves.

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where)
    void leave_recursion "Py_LeaveRecursiveCall"()


cdef inline int enter_recursion(const char* where) except -1:
    """Count a level, or raise RecursionError; call `leave_recursion` at its end."""
    # Py_EnterRecursiveCall returns 1 or -1 on errors, depending on the version of
    # Python
    return -1 if Py_EnterRecursiveCall(where) else 0
