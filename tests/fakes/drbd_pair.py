"""What the kernel says of DRBD, and a lab of two machines that say so."""

from replication_lab.model.lab.topology import TopologyNode

from tests.fakes.parts import LabOfNames

CONNECTED = """version: 8.4.11 (api:1/proto:86-101)
srcversion: AAC9D2685AD926F7D004EAB
 0: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----
    ns:8144 nr:1 dw:8240 dr:7694 al:19 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0
"""
SYNCING = """version: 8.4.11 (api:1/proto:86-101)
 0: cs:SyncSource ro:Primary/Secondary ds:UpToDate/Inconsistent C r-----
    ns:100 nr:0 dw:240 dr:94 al:19 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:n oos:5120
	[===>................] sync'ed: 43.8% (5120/9100)K
	finish: 0:00:01 speed: 4,060 (4,060) K/sec
"""
STAND_ALONE = """version: 8.4.11 (api:1/proto:86-101)
 0: cs:StandAlone ro:Primary/Unknown ds:UpToDate/DUnknown   r-----
    ns:0 nr:0 dw:8 dr:9 al:1 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:d oos:12
split-brain
"""
DOWN = """version: 8.4.11 (api:1/proto:86-101)
 0: cs:Unconfigured
"""


class Pair(LabOfNames):
    """A lab of two machines with given states; commands to them are stored, and change the states as `obeys` says."""

    name = "lab-drbd"
    # As a lab, which has lists and mappings: a dictionary of its machines is one by their names.
    __hash__ = None

    class topology:
        nodes = (TopologyNode("node1", "peer"), TopologyNode("node2", "peer"))
        manager = ""

    def __init__(self, obeys=None, **texts):
        self.texts, self.told, self.obeys = texts, [], obeys or {}

    def run(self, node, _guest, program, word, *_words):
        if program == "sh":
            return "drbd lab: incompatible protocol settings"
        if word == "status":
            return self.texts[node]
        self.told.append((node, word))
        self.texts |= self.obeys.get((node, word), {})
        return ""

    def state_of(self, node):
        return ("running", 0) if self.texts[node] else ("exited", 137)
