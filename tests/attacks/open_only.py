"""The cases of this folder that do not run again at servers with access control, and why.

A key is a file, or `file::test`. `tests/arch/test_open_only.py` holds the list.
"""

NO_SERVER = "no server of ours takes a request"
OF_ITS_OWN = "its servers have access control of their own"
OPEN_ONLY: dict[str, str] = {
    "test_askers.py": OF_ITS_OWN,
    "test_each_code.py": OF_ITS_OWN,
    "test_guarded_copies.py": OF_ITS_OWN,
    "test_half_starts.py": NO_SERVER,
    "test_known_holes.py": OF_ITS_OWN,
    "test_known_holes_at_rest.py::test_s3_a_canary_is_in_no_file_name_log_or_argument": OF_ITS_OWN,
    "test_known_holes_at_rest.py::test_s5_rights_without_login_are_refused_at_the_start": OF_ITS_OWN,
    "test_known_holes_at_rest.py::test_s9_who_guesses_a_name_and_not_its_secret_sends_no_large_frames_for_long": OF_ITS_OWN,
    "test_known_holes_java.py": "its server is a Java broker",
    "test_known_holes_of_bytes.py::test_s6_the_ha_port_gives_a_stranger_nothing_and_believes_him_nothing": (
        "a guarded master starts with allowed addresses alone, and this one's stranger has one; test_guarded_copies.py has strangers"
    ),
    "test_own_machine.py": "it is about servers without access control",
    "test_slow_strangers.py::test_before_somebody_has_signed_no_large_frame_is_kept": OF_ITS_OWN,
    "test_slow_strangers.py::test_a_large_frame_of_a_user_is_taken_also_as_his_first": OF_ITS_OWN,
    "test_strange_servers.py": NO_SERVER,
    "test_unasked_requests.py": OF_ITS_OWN,
    "test_young_java_broker.py": NO_SERVER,
}
