"""The API, from the code that ./generate makes of the proto files."""

import pathlib
import sys

_here = pathlib.Path(__file__).resolve().parent
REPOSITORY = _here.parents[1]
sys.path.insert(0, str(_here / "gen"))

# pylint: disable=wrong-import-position,unused-import
from holdfast.v1 import admin_service_pb2, admin_service_pb2_grpc  # noqa: E402,F401
from holdfast.v1 import allotment_pb2, hold_pb2  # noqa: E402,F401
from holdfast.v1 import inventory_service_pb2, inventory_service_pb2_grpc  # noqa: E402,F401
import errors_pb2  # noqa: E402,F401
