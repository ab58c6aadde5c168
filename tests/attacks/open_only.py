"""The cases of this folder that do not run again at servers with access control, and why.

A key is a file, or `file::test`. `tests/arch/test_open_only.py` holds the list.
"""

from __future__ import annotations

AT_START = "what is wrong lies in files and settings that a start reads: no peer takes part"
NO_SERVER = "no server of ours takes a request"
NOT_TRIED = "it has not been run with access control yet"
OF_ITS_OWN = "its servers have access control of their own"
OPEN_ONLY: dict[str, str] = {
    "test_askers.py": OF_ITS_OWN,
    "test_client_settings.py": NOT_TRIED,
    "test_damaged_files.py": AT_START,
    "test_each_code.py": OF_ITS_OWN,
    "test_frames.py": NOT_TRIED,
    "test_guarded_copies.py": OF_ITS_OWN,
    "test_ha_port.py": NOT_TRIED,
    "test_half_starts.py": NO_SERVER,
    "test_held_pulls.py": NOT_TRIED,
    "test_hostile_names.py": NOT_TRIED,
    "test_known_holes.py": OF_ITS_OWN,
    "test_known_holes_at_rest.py": OF_ITS_OWN,
    "test_known_holes_java.py": "its server is a Java broker",
    "test_known_holes_of_bytes.py": NOT_TRIED,
    "test_lacks.py": NOT_TRIED,
    "test_names.py": NOT_TRIED,
    "test_nameserver.py": NOT_TRIED,
    "test_newer_stores.py": AT_START,
    "test_own_machine.py": "it is about servers without access control",
    "test_pages.py": NOT_TRIED,
    "test_pipelines.py": NOT_TRIED,
    "test_processes.py": NOT_TRIED,
    "test_producer_waits.py": NOT_TRIED,
    "test_refused_settings.py": AT_START,
    "test_slow_strangers.py": NOT_TRIED,
    "test_spark_rows.py": NOT_TRIED,
    "test_starts.py": AT_START,
    "test_strange_servers.py": NO_SERVER,
    "test_topics.py": NOT_TRIED,
    "test_transactions_unasked.py": NOT_TRIED,
    "test_unasked_requests.py": OF_ITS_OWN,
    "test_young_java_broker.py": NO_SERVER,
}
