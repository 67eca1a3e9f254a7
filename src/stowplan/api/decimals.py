"""Integer arithmetic on `mantissa × 10^scale`, with what Go's int64 and big numbers do beyond int64."""

from stowplan.gocompat.numbers import MAX_INT64, MIN_INT64, fits_int64, wrap_int64

# Scaling up by these powers of ten wraps on overflow; scaling up by any other gives 0.
_WRAPPING_SHIFTS = frozenset((1, 2, 3, 6, 9))


def power_of_ten(exponent: int) -> int:
    return int(10**exponent)


def scale_int64(mantissa: int, shift: int) -> int:
    """`mantissa × 10^shift` the way Go's int64 amounts do it."""
    if shift == 0 or not mantissa:
        return mantissa
    if shift < 0:
        magnitude = -(-abs(mantissa) // power_of_ten(min(-shift, 19)))
        return magnitude if mantissa > 0 else -magnitude
    if shift > 19:
        return 0
    scaled = mantissa * power_of_ten(shift)
    if fits_int64(scaled):
        return scaled
    return wrap_int64(scaled) if shift in _WRAPPING_SHIFTS and mantissa != MIN_INT64 else 0


def scale_wide(mantissa: int, shift: int) -> int:
    """`mantissa × 10^shift` the way Go's arbitrary-precision amounts do it."""
    if shift >= 0:
        factor = power_of_ten(shift) if shift <= 18 else MIN_INT64
        return wrap_int64(wrap_int64(mantissa) * factor)
    divisor = power_of_ten(-shift)
    if mantissa < MAX_INT64 and -shift < 19:
        narrow = wrap_int64(mantissa)
        whole = abs(narrow) // divisor
        rest = abs(narrow) != whole * divisor
        return (whole if narrow >= 0 else -whole) + rest
    whole, remainder = divmod(mantissa, divisor)
    return wrap_int64(wrap_int64(whole) + (remainder != 0))


def add_int64(left: int, left_scale: int, right: int, right_scale: int) -> tuple[int, int] | None:
    """The sum as int64 mantissa and scale, None when it overflows."""
    if not right:
        return left, left_scale
    if not left:
        return right, right_scale
    scale = min(left_scale, right_scale)
    if max(left_scale, right_scale) - scale > 19:
        return None
    left *= 10 ** (left_scale - scale)
    right *= 10 ** (right_scale - scale)
    total = left + right
    if fits_int64(left) and fits_int64(right) and fits_int64(total):
        return total, scale
    return None


def as_whole(mantissa: int, scale: int) -> int | None:
    """The amount as an integer, None if it has a fraction."""
    if scale >= 0:
        return mantissa * power_of_ten(scale)
    whole, rest = divmod(mantissa, power_of_ten(-scale))
    return None if rest else whole


def without_tens(mantissa: int, scale: int) -> tuple[int, int]:
    """The same amount with all factors of ten in the scale."""
    if not mantissa:
        return 0, 0
    while mantissa % 10 == 0:
        mantissa //= 10
        scale += 1
    return mantissa, scale


def compare(left: int, left_scale: int, right: int, right_scale: int) -> int:
    """-1, 0 or 1 as the left amount is less, equal or greater; never builds a huge power of ten."""
    if left_scale != right_scale:
        signs = _sign(left), _sign(right)
        if signs[0] != signs[1] or not left:
            left, right = signs
        else:
            sizes = len(str(abs(left))) + left_scale, len(str(abs(right))) + right_scale
            if sizes[0] != sizes[1]:
                left, right = sizes[0] * signs[0], sizes[1] * signs[1]
            elif left_scale > right_scale:
                left *= power_of_ten(left_scale - right_scale)
            else:
                right *= power_of_ten(right_scale - left_scale)
    return (left > right) - (left < right)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
