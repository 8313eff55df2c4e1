"""Memory instructions of machine code, in the form of nvdisasm."""

from ioaware.simulation.spills.machine_trace import MachineTrace, MemoryInstruction, Region, trace_of

CODE = """
.text.kernel:
	//## File "/somewhere/kernel.py", line 10
        /*0000*/                   STL.64 [R1+0x8], R4 ;
        /*0010*/              @!P0 LDGSTS.E.BYPASS.128 [R2], desc[UR4][R6.64] ;
.L_x_1:
	//## File "/somewhere/kernel.py", line 12 inlined at "/somewhere/kernel.py", line 40
        /*0020*/                   LDG.E.128 R8, desc[UR4][R6.64] ;
        /*0030*/                   STL [R1], R8 ;
.L_x_2:
        /*0040*/                   LDL.LU R8, [R1+0x10] ;
        /*0050*/               @P1 BRA `(.L_x_2) ;
        /*0060*/                   IADD3 R1, R1, -0x20, RZ ;
        /*0070*/               @P0 BRA `(.L_x_1) ;
        /*0078*/              @!P0 BRA `(.L_x_5) ;
.L_x_6:
        /*0080*/               @P2 BRA `(.L_x_4) ;
        /*0090*/                   STG.E.U16 desc[UR4][R6.64], R8 ;
.L_x_4:
        /*00a0*/                   EXIT ;
.L_x_5:
        /*00a8*/                   BRA `(.L_x_6) ;
.L_x_3:
        /*00b0*/                   BRA `(.L_x_3);
"""


def test_instructions_have_bytes_places_and_regions() -> None:
    assert trace_of(CODE) == MachineTrace(
        (
            MemoryInstruction("spill", 8, 8, "kernel.py:10", None),
            MemoryInstruction("global", 16, 0, "kernel.py:10", None, cached=False),
            MemoryInstruction("global", 16, 0, "kernel.py:12", 0),
            MemoryInstruction("spill", 4, 0, "kernel.py:12", 0),
            MemoryInstruction("refill", 4, 16, "kernel.py:12", 1, last_use=True),
            MemoryInstruction("global", 2, 0, "kernel.py:12", 2),
        ),
        (Region(loop=True, parent=None), Region(loop=True, parent=0), Region(loop=False, parent=None)),
    )
