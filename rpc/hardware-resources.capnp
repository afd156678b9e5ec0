@0xc3a6d1f47b0e9258;
# Resources of the machine's condition: readings that change while it runs, and how its processors, memory and buses
# belong together. A container has no such resources: they are its host's. Field order is the order in which `get`
# prints keys and columns.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";

struct SensorReadingSpec $A.resource((type = "SensorReadings.hardware.talos.dev", namespace = "hardware",
    aliases = ["sensors", "sensor"])) {
  # A temperature or a fan, as a driver of the kernel measures it. The id is its place in sysfs: hwmon0-temp1.
  chip @0 :Text $A.column("Chip");              # coretemp, k10temp, nvme, jc42
  device @1 :Text $A.column("Device");          # of the chip, as its bus calls it: nvme0
  label @2 :Text $A.column("Label");            # Core 0, Composite; empty: the driver names none
  kind @3 :Text;                                # temperature or fan
  value @4 :Int32 $A.column("Value");
  unit @5 :Text $A.column("Unit");              # C or rpm
  low @6 :Int32;                                # of a fan; 0: the driver states none
  high @7 :Int32;                               # of a temperature; 0: the driver states none
  critical @8 :Int32;
  state @9 :Text $A.column("State");            # ok, low, high, critical, alarm or fault
}
struct MemoryErrorCountSpec $A.resource((type = "MemoryErrorCounts.hardware.talos.dev", namespace = "hardware",
    aliases = ["ecc"])) {
  # Errors of memory with ECC since the machine started. The id is a memory controller, mc0, or one of its modules,
  # mc0-dimm3.
  controller @0 :Text $A.column("Controller");  # as its driver calls it
  module @1 :Text $A.column("Module");          # the label of its socket; empty: of the whole controller
  sizeMiB @2 :UInt64 $A.column("MiB");
  corrected @3 :UInt64 $A.column("Corrected");
  uncorrected @4 :UInt64 $A.column("Uncorrected");
}
struct DiskHealthSpec $A.resource((type = "DiskHealths.hardware.talos.dev", namespace = "hardware", aliases = ["smart"])) {
  # A disk's own verdict (SMART). The id is the disk: nvme0n1, sda. The verdict is requested only from NVMe disks, and
  # from disks that the kernel reaches by ATA.
  health @0 :Text $A.column("Health");          # passed, failing or unknown
  protocol @1 :Text $A.column("Protocol");      # NVMe or ATA
  wear @2 :Text $A.column("Wear");              # 3%, of the life that its vendor expects; empty: not reported
  warnings @3 :List(Text) $A.column("Warnings");
  error @4 :Text $A.column("Error");            # of the request, when the health is unknown
  nvme @5 :NvmeHealth $A.ifGiven;
}
struct NvmeHealth {
  # The log page of an NVMe disk.
  temperature @0 :Int32;                        # C
  availableSpare @1 :UInt32;                    # %
  availableSpareThreshold @2 :UInt32;
  percentageUsed @3 :UInt32;                    # may be above 100
  bytesRead @4 :UInt64;
  bytesWritten @5 :UInt64;
  powerCycles @6 :UInt64;
  powerOnHours @7 :UInt64;
  unsafeShutdowns @8 :UInt64;
  mediaErrors @9 :UInt64;
  errorLogEntries @10 :UInt64;
}
struct NumaNodeSpec $A.resource((type = "NUMANodes.hardware.talos.dev", namespace = "hardware", aliases = ["numa"])) {
  # Processors and memory that are close to each other. The id is node0.
  cpus @0 :Text $A.column("CPUs");              # 0-7,16-23
  memoryMiB @1 :UInt64 $A.column("MiB");
  distances @2 :List(UInt32) $A.column("Distances");  # to each node, in their order; 10 is the node itself
}
struct IommuGroupSpec $A.resource((type = "IOMMUGroups.hardware.talos.dev", namespace = "hardware")) {
  # Devices that are isolated from others, but not from each other. The id is the number of the group.
  type @0 :Text $A.column("Type");              # of its address space: DMA, DMA-FQ, identity
  devices @1 :List(Text) $A.column("Devices");  # their addresses on the bus
}
struct OomActionSpec $A.resource((type = "OOMActions.runtime.talos.dev", namespace = "runtime", aliases = ["ooms"])) {
  # A cgroup that the node has killed because it was running out of memory. The id is the number of the kill since the
  # node has started; the last 50 are kept.
  time @0 :Text $A.column("Time");              # RFC 3339
  score @1 :Text $A.column("Score");            # value of the ranking expression
  cgroup @2 :Text $A.column("Cgroup");          # kubepods/besteffort/pod…
  class @3 :Text $A.column("Class");            # Besteffort, Burstable, Guaranteed, Podruntime or System
  memoryBytes @4 :UInt64 $A.column("Memory");   # of the cgroup, before the kill
  processes @5 :UInt32 $A.column("Processes");  # that the kill ended
  trigger @6 :Text;                             # the expression that held
}
