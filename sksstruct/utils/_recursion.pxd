# Recursion over objects of users, such as a list that contains itself.

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where)
    void leave_recursion "Py_LeaveRecursiveCall"()


cdef inline int enter_recursion(const char* where) except -1:
    """Enter a level of recursion, or raise RecursionError.

    The caller leaves the level by `leave_recursion`.
    """
    # Py_EnterRecursiveCall returns 1 or -1 on errors, depending on the version of
    # Python
    return -1 if Py_EnterRecursiveCall(where) else 0
