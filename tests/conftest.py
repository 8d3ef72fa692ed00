"""What all tests share."""

from hypothesis import settings

# What a checkout passes depends on the checkout alone. New examples:
# pytest --hypothesis-profile=default
settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("steady")
