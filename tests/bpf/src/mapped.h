/* Rows of calls.c for mappings: physical memory is given back by whichever handle or mapping holds it last. */

enum { MAPPED_BYTES = 2 << 20 };
#define AT(place) (0x600000000000ull + (place) * MAPPED_BYTES)

#define CREATE(out) CALL(cuMemCreate, 300007, NULL, NULL, 0, PHYSICAL_DEVICE, out, 300007, properties, 0);
#define MAP(place, handle)                                                                                           \
    CALL(cuMemMap, MAPPED_BYTES, NULL, NULL, 0, HOME, AT(place), MAPPED_BYTES, 0, handle, 0);
#define RELEASE(given, handle) CALL(cuMemRelease, given, NULL, NULL, 0, PHYSICAL_DEVICE, handle);
#define UNMAP(given, ordinal, place, count)                                                                          \
    CALL(cuMemUnmap, given, NULL, NULL, 0, ordinal, AT(place), (count) * MAPPED_BYTES);

static void mappings(const int *properties)
{
    ptr one, two, three;
    CREATE(&one)
    MAP(0, one)
    UNMAP(0, PHYSICAL_DEVICE, 0, 1)
    RELEASE(300007, one)
    CREATE(&one)
    CREATE(&two)
    MAP(0, one)
    MAP(1, one)
    MAP(2, two)
    answer_with(FAILED);
    MAP(3, two)
    UNMAP(0, HOME, 2, 1)
    answer_with(0);
    RELEASE(0, one)
    RELEASE(0, two)
    cuMemRetainAllocationHandle(&three, (void *)two);
    UNMAP(0, PHYSICAL_DEVICE, 0, 1)
    UNMAP(300007, PHYSICAL_DEVICE, 1, 2) /* neighbours: the last of one, and two has its third handle */
    RELEASE(300007, three)
    MAP(0, 0x77) /* memory that nobody saw being made */
    UNMAP(0, HOME, 0, 1)
    CREATE(&one)
    CREATE(&two)
    MAP(0, one)
    MAP(1, two)
    RELEASE(0, one)
    RELEASE(0, two)
    UNMAP(2 * 300007, PHYSICAL_DEVICE, 0, 2)
}
