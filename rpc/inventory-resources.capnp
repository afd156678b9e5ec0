@0xdb861f0a188074d0;
# Resources that describe the machine, its platform and the features of its system, as clients of later versions of the
# original read them. Field order is the order in which `get` prints keys and columns.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";

# --- the machine and its platform ---
struct SecurityStateSpec $A.resource((type = "SecurityStates.talos.dev", namespace = "runtime")) {
  # The id is securitystate.
  secureBoot @0 :Bool $A.column("SecureBoot");  # the firmware checked what it booted
  ukiSigningKeyFingerprint @1 :Text $A.column("UKISigningKeyFingerprint");  # empty: the system is no signed UKI
  pcrSigningKeyFingerprint @2 :Text $A.column("PCRSigningKeyFingerprint");
  landlock @3 :UInt32 $A.column("Landlock");    # version of the kernel's interface that restricts files; 0: missing
  unrestricted @4 :List(Text);                  # accesses left to services: Landlock is older or missing; empty: none
}
struct PlatformMetadataSpec $A.resource((type = "PlatformMetadatas.talos.dev", namespace = "runtime")) {
  # The machine as its platform describes it. The id is platformmetadata.
  platform @0 :Text $A.column("Platform");      # metal, container
  hostname @1 :Text;
  region @2 :Text $A.column("Region");
  zone @3 :Text $A.column("Zone");
  instanceType @4 :Text $A.column("Type");
  instanceId @5 :Text;
  providerId @6 :Text;
  spot @7 :Bool;
  internalDns @8 :Text $A.name("internalDNS");
  externalDns @9 :Text $A.name("externalDNS");
}
struct SystemInformationSpec $A.resource((type = "SystemInformations.hardware.talos.dev", namespace = "hardware")) {
  # From the firmware (SMBIOS); does not exist in a container. The id is systeminformation.
  manufacturer @0 :Text $A.column("Manufacturer");
  productName @1 :Text $A.column("ProductName");
  version @2 :Text $A.column("Version");
  serialNumber @3 :Text $A.column("SerialNumber") $A.name("serialnumber");
  uuid @4 :Text $A.column("UUID");
  wakeUpType @5 :Text $A.column("WakeUpType");
  skuNumber @6 :Text $A.column("SKUNumber");
}
struct ProcessorSpec $A.resource((type = "Processors.hardware.talos.dev", namespace = "hardware", aliases = ["cpus", "cpu"])) {
  # A package with processors; does not exist in a container. The id is CPU-<number>.
  socket @0 :Text;
  manufacturer @1 :Text $A.column("Manufacturer");
  productName @2 :Text $A.column("Model");
  coreCount @3 :UInt32 $A.column("Cores");
  threadCount @4 :UInt32 $A.column("Threads");
  microcode @5 :Text $A.column("Microcode");    # its revision: 0x2b000639; empty: the kernel does not say
}
struct MemoryModuleSpec $A.resource((type = "MemoryModules.hardware.talos.dev", namespace = "hardware", aliases = ["ram"])) {
  # SMBIOS tables of type 17, which this system does not read.
  manufacturer @0 :Text $A.column("Manufacturer");
  productName @1 :Text $A.column("Model");
  sizeMiB @2 :UInt32 $A.column("SizeMiB");
}
struct PciDeviceSpec $A.resource((type = "PCIDevices.hardware.talos.dev", namespace = "hardware",
    aliases = ["devices", "device"])) {
  # Does not exist in a container. The id is the address on the bus. Names are empty: the system has no table of them.
  class @0 :Text $A.column("Class");
  subclass @1 :Text $A.column("Subclass");
  vendor @2 :Text $A.column("Vendor");
  product @3 :Text $A.column("Product");
  classId @4 :Text $A.name("class_id");
  subclassId @5 :Text $A.name("subclass_id");
  vendorId @6 :Text $A.name("vendor_id");
  productId @7 :Text $A.name("product_id");
}
struct DiskSpec $A.resource((type = "Disks.block.talos.dev", namespace = "runtime")) {
  # A whole disk, without CD-ROM drives, loop devices and the like; does not exist in a container. The id is its name.
  size @0 :UInt64;                              # bytes
  prettySize @1 :Text $A.column("Size") $A.name("pretty_size");
  ioSize @2 :UInt64 $A.name("io_size");
  sectorSize @3 :UInt64 $A.name("sector_size");
  readOnly @4 :Bool $A.column("Read Only") $A.name("readonly");
  transport @5 :Text $A.column("Transport");    # nvme, sata, virtio, usb, …; empty: unknown
  rotational @6 :Bool $A.column("Rotational");
  wwid @7 :Text $A.column("WWID");
  model @8 :Text $A.column("Model");
  serial @9 :Text $A.column("Serial");
  modalias @10 :Text;
  uuid @11 :Text;
  busPath @12 :Text $A.name("bus_path");
  subSystem @13 :Text $A.name("sub_system");
  devPath @14 :Text $A.name("dev_path");        # /dev/vda
}
struct SystemDiskSpec $A.resource((type = "SystemDisks.block.talos.dev", namespace = "runtime")) {
  # The disk with the system; does not exist in a container, and on a node without one. The id is system-disk.
  diskId @0 :Text $A.column("Disk") $A.name("diskID");  # vda
  devPath @1 :Text;                             # /dev/vda
}
struct DevicesStatusSpec $A.resource((type = "DevicesStatuses.runtime.talos.dev", namespace = "runtime")) {
  # The id is devices.
  ready @0 :Bool $A.column("Ready");            # all devices that the kernel found at the boot are in /dev
}
struct MetaLoadSpec $A.resource((type = "MetaLoads.runtime.talos.dev", namespace = "runtime")) {
  # The id is meta-loaded.
  done @0 :Bool $A.column("Done");              # values of META can be read, if the machine has a META
}
struct UniqueMachineTokenSpec $A.resource((type = "UniqueMachineTokens.runtime.talos.dev", namespace = "runtime")) {
  # The id is unique-machine-token.
  token @0 :Text $A.column("Token");            # empty: none
}
struct EtcFileStatusSpec $A.resource((type = "EtcFileStatuses.files.talos.dev", namespace = "files")) {
  # A file of /etc that this machine has written. The id is its name.
  specVersion @0 :Text $A.column("Spec Version");  # changes with the file's content
}

# --- the cluster ---
struct ClusterInfoSpec $A.resource((type = "Infos.cluster.talos.dev", namespace = "cluster")) {
  # The cluster's id and name in the config. The id is current.
  clusterId @0 :Text $A.column("Cluster ID");
  clusterName @1 :Text $A.column("Cluster Name");
}
struct LocalEtcdMemberSpec $A.resource((type = "LocalEtcdMembers.etcd.talos.dev", namespace = "etcd")) {
  # This node's member, as long as its etcd is healthy. The id is local; clients of Talos look for it among
  # EtcdMembers.
  memberId @0 :Text $A.column("Member ID") $A.name("memberID");  # 16 hexadecimal digits
}

# --- features of the system ---
struct DiscoveryConfigSpec $A.resource((type = "DiscoveryConfigs.cluster.talos.dev", namespace = "config", sensitive = true)) {
  # The id is cluster. Members are known from Kubernetes; no discovery registry is used.
  discoveryEnabled @0 :Bool;
  registryKubernetesEnabled @1 :Bool;
  registryServiceEnabled @2 :Bool;
  serviceEndpoint @3 :Text;
  serviceEndpointInsecure @4 :Bool;
  serviceEncryptionKey @5 :Text;
  serviceClusterId @6 :Text $A.name("serviceClusterID");
}
struct KubernetesAccessConfigSpec $A.resource((type = "KubernetesAccessConfigs.cluster.talos.dev", namespace = "config")) {
  # Access of pods to the API of nodes. The id is config.
  enabled @0 :Bool $A.column("Enabled");
  allowedApiRoles @1 :List(Text) $A.name("allowedAPIRoles");
  allowedKubernetesNamespaces @2 :List(Text);
}
struct ImageCacheConfigSpec $A.resource((type = "ImageCacheConfigs.cri.talos.dev", namespace = "cri")) {
  # The id is image-cache.
  status @0 :Text $A.column("Status");          # disabled
  copyStatus @1 :Text $A.column("Copy Status");  # skipped
  roots @2 :List(Text);
}
struct HostDnsConfigSpec $A.resource((type = "HostDNSConfigs.net.talos.dev", namespace = "network")) {
  # The resolver of the node, which networkd runs. The id is config.
  enabled @0 :Bool $A.column("Enabled");
  listenAddresses @1 :List(Text) $A.column("Listen Addresses");
  serviceHostDnsAddress @2 :Text $A.name("serviceHostDNSAddress");
  resolveMemberNames @3 :Bool;
  hosts @4 :List(Host);                          # of the config, and the node itself
  members @5 :List(Host);                        # of the cluster; a name of `hosts` comes first
  struct Host { address @0 :Text; names @1 :List(Text); }
}
