# Recursion over data of users, which may contain themselves.

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where)
    void leave_recursion "Py_LeaveRecursiveCall"()


cdef inline int enter_recursion(const char* where) except -1:
    """Count a level, or raise RecursionError; `leave_recursion` comes at its end."""
    # an error is 1 in some versions of Python and -1 in others
    return -1 if Py_EnterRecursiveCall(where) else 0
