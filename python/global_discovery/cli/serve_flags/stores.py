"""The flags of the values of `--registration-storage`: where registrations are kept."""

from global_discovery.cli.flags import Flag, Heading
from global_discovery.cli.serve_flags.general import STORAGE
from global_discovery.cli.values import (
    endpoint_url,
    file_path,
    region_name,
    table_name,
    whole_seconds,
)

MAX_REFRESH_SECONDS = 60

_WITH_SQLITE = Heading("with sqlite", STORAGE, frozenset({"sqlite"}))
SQLITE_PATH = Flag(
    "--sqlite-path",
    "PATH",
    file_path,
    "The file in which registrations are kept; made when it is not there.",
    _WITH_SQLITE,
    otherwise="none, it must be set",
)
_WITH_DYNAMODB = Heading("with dynamodb", STORAGE, frozenset({"dynamodb"}))
DYNAMODB_TABLE = Flag(
    "--dynamodb-table",
    "NAME",
    table_name,
    "The table in which registrations are kept.",
    _WITH_DYNAMODB,
    otherwise="none, it must be set",
)
DYNAMODB_REGION = Flag(
    "--dynamodb-region",
    "REGION",
    region_name,
    "The AWS region of the table.",
    _WITH_DYNAMODB,
    otherwise="as AWS's own configuration says",
)
DYNAMODB_ENDPOINT_URL = Flag(
    "--dynamodb-endpoint-url",
    "URL",
    endpoint_url,
    "Where DynamoDB is, if not where AWS has it.",
    _WITH_DYNAMODB,
    otherwise="AWS's own",
)
DYNAMODB_REFRESH = Flag(
    "--dynamodb-refresh-secs",
    "SECONDS",
    whole_seconds(1, MAX_REFRESH_SECONDS),
    "How often the table is read.",
    _WITH_DYNAMODB,
    default="1",
)
