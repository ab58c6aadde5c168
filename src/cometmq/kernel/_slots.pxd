# Slots of Python classes, read and set without a look at their names for each object.

cdef extern from *:
    """
    #define IS_SLOT(value) Py_IS_TYPE(value, &PyMemberDescr_Type)
    #define GET_SLOT(slot, owner) PyMemberDescr_Type.tp_descr_get(slot, owner, NULL)
    #define PUT_SLOT(slot, owner, value) PyMemberDescr_Type.tp_descr_set(slot, owner, value)
    #define NEW_OBJECT(kind) PyType_GenericAlloc(kind, 0)
    """
    bint is_slot "IS_SLOT"(object value)
    # The slot is of the owner's class, as `slot_of` gives it.
    object get_slot "GET_SLOT"(object slot, object owner)
    # Past what an object says about who may change it.
    int put_slot "PUT_SLOT"(object slot, object owner, object value) except -1
    # Its slots are empty, and its constructor is not called.
    object new_object "NEW_OBJECT"(type kind)


cdef inline object slot_of(type kind, str name):
    cdef object slot = getattr(kind, name)
    if not is_slot(slot):
        raise TypeError(f"{kind} has no slot {name}")
    return slot
