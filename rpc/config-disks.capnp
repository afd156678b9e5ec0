@0xc4a1d7b30e9f5628;
# The part of the machine config (config.capnp) that describes its disks: the installation, partitions, volumes and their
# encryption. Types state their ids, because they keep the ids that they got in config.capnp, where they were before.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::config");
using A = import "annotations.capnp";

# How often a file system is trimmed.
struct TrimRule @0xcc9dad3aac58e6aa {
  mountpoint @0 :Text;                 # "": all others
  seconds @1 :UInt64;                  # 0: never
}

# A volume beside those of the system, as a document sets it.
struct StorageVolume @0xdb62e184a0366171 {
  id @0 :Text;                         # u-data; the label of its partition
  kind @1 :Kind;
  selector @2 :Text;                   # CEL: of the disk; of an existing volume, of the volume
  size @3 :VolumeSize;
  mountpoint @4 :Text;                 # /var/mnt/data; "" if it is not mounted
  filesystem @5 :Text;                 # xfs; "" for the one that it has, and of raw volumes and swap
  encryption @6 :Encryption;
  insecure @7 :Bool;                   # programs, devices and set-user-ID bits on it take effect
  noAccessTimes @8 :Bool;
  readOnly @9 :Bool;
  projectQuotas @10 :Bool;             # not used: a document that sets it is refused
  enum Kind { partition @0; disk @1; directory @2; raw @3; swap @4; existing @5; }
}

struct VolumeSize @0xf9d813c23d32e0c5 {
  least @0 :UInt64;                    # bytes
  most @1 :UInt64;                     # bytes; 0 without mostPercent: all of the free space
  mostPercent @2 :UInt8;               # of the free space, in place of bytes
  leavesMost @3 :Bool;                 # the maximum is what stays free
  grows @4 :Bool;
}

struct Install @0xb1f41de795a5b71a {
  disk @0 :Text $A.doc("Block device to install on.");
  image @1 :Text $A.doc("Container image of the installer.");
  bootloader @2 :Bool = true $A.keepEmpty $A.default("true") $A.doc("Install a boot loader.");
  wipe @3 :Bool $A.keepEmpty $A.doc("Wipe the disk before partitioning it.");
  extraKernelArgs @4 :List(Text) $A.doc("Additional kernel arguments, written by an installation and by each upgrade; console= replaces the built-in one.");
  diskSelector @5 :DiskSelector $A.since("v0.10")
      $A.doc("Select the disk by its properties instead of its path; disk is not used then. All given properties must match, and there must be one.");
  imageKey @6 :Text $A.doc("Public key in PEM, ECDSA P-256 or Ed25519. An image that the node is upgraded to must have a signature that it verifies.");
  diskMatch @7 :Text $A.hidden;        # CEL: of the disk, by UnattendedInstallConfig; "": disk or diskSelector
}

struct DiskSelector @0xe854c865e2c00b71 {
  size @0 :Text $A.doc("Size, optionally with >=, <=, >, < or == in front, such as >= 100GB.");
  name @1 :Text $A.doc("Name of the device: the one that it has itself, which talosctl disks -o yaml shows, or that in the kernel, such as mmcblk0. "
                       "Here and in the following keys, * matches any characters.");
  model @2 :Text $A.doc("Model.");
  serial @3 :Text $A.doc("Serial number.");
  modalias @4 :Text $A.doc("Modalias of the device.");
  uuid @5 :Text $A.doc("UUID.");
  wwid @6 :Text $A.doc("World Wide Identifier (WWID).");
  type @7 :DiskType $A.doc("Kind of disk.");
  busPath @8 :Text $A.since("v1.0")
      $A.doc("Path of the device below /sys/devices, as talosctl disks -o yaml shows it, with or without the / at its end.");
}

enum DiskType @0xecc69f0f8d6c8829 $A.noun("disk type") {
  any @0 $A.alias([""]);
  ssd @1;
  hdd @2;
  nvme @3;
  sd @4;
}

struct Disk @0x9297cf945ff5a19c {
  device @0 :Text $A.required $A.doc("Path of the block device, such as /dev/sdb.");
  partitions @1 :List(Partition) $A.doc("Partitions in their order on the disk.");
}

struct Partition @0xbc082881d4d6a1db {
  size @0 :Text $A.default("the rest of the disk")
      $A.doc("Size, such as 10GB, 4GiB, or a number of bytes. Only the last partition may be without one.");
  mountpoint @1 :Text $A.required $A.doc("Mount point, a directory below /var.");
}

struct SystemDiskEncryption @0xb24427c314d840c2 {
  state @0 :Encryption $A.doc("The STATE partition, which has the node's config and identity.");
  ephemeral @1 :Encryption $A.doc("The EPHEMERAL partition, mounted at /var.");
}

struct Encryption @0xfb24d2d5b9f4d3e7 {
  provider @0 :Text = "luks2" $A.live $A.keepEmpty $A.default("luks2") $A.doc("Type of encryption. The only valid type is luks2.");
  cipher @1 :Text $A.live $A.default("aes-xts-plain64") $A.doc("Cipher. The only valid cipher is aes-xts-plain64.");
  keys @2 :List(EncryptionKey) $A.live $A.keepEmpty $A.doc("Keys of the partition; each of them can open it.");
  keySize @3 :UInt32 $A.since("v0.12") $A.default("512")
      $A.doc("Size of the volume's own key in bits, 256 or 512. Takes effect when the partition is formatted: stage the change, then reset the partition.");
  blockSize @4 :UInt32 $A.since("v0.12") $A.default("512")
      $A.doc("Encrypted sectors are of this many bytes, 512, 1024, 2048 or 4096. Takes effect when the partition is formatted, as keySize does.");
  options @5 :List(Text) $A.since("v0.12")
      $A.doc("How the kernel works on it: no_read_workqueue, no_write_workqueue and same_cpu_crypt. And, of STATE only, "
             "readable_in_meta: static keys are stored in META too, which is not encrypted, so that they open STATE at each "
             "boot; anyone who has the disk can read them. Without a key with nodeID, kms or tpm they are stored there anyway.");
}

struct EncryptionKey @0xdeef0e43485c833d {
  static @0 :StaticKey $A.doc("A passphrase in this config.");
  nodeID @1 :NodeId $A.doc("A passphrase derived from the machine's UUID and the partition's label; use {}.");
  slot @2 :UInt32 $A.keepEmpty $A.default("0") $A.doc("LUKS key slot, 0 to 31, different for each key.");
  recovery @3 :RecoveryKey
      $A.doc("A passphrase that the node does not have: talosctl encryption recovery-key makes one and shows it once; use {}.");
  kms @4 :KmsKey $A.since("v1.5")
      $A.doc("A random passphrase that a key server (KMS) in the network seals. It gives the passphrase to this machine, which "
             "it knows by its UUID, at each boot. Without the server only another key opens the volume.");
  tpm @5 :TpmKey $A.since("v1.5") $A.ifGiven $A.keepEmpty
      $A.doc("A random passphrase that the machine's TPM 2.0 seals. Only this machine opens it, and only if it starts as it did "
             "then. A firmware update or a new mainboard may end that: give the volume a second key.");
  lockToState @6 :Bool $A.hidden;
}

struct KmsKey @0xc6b1d09e4a7f3582 {
  endpoint @0 :Text $A.required $A.since("v1.5")
      $A.doc("Address of the server: host:port or grpc://host:port for a connection without TLS; https://host, "
             "https://host:port or another scheme for TLS, with the CAs of this system and of TrustedRootsConfig.");
}

struct TpmKey @0xa93e5c07f1d8b246 {
  checkSecurebootStatusOnEnroll @0 :Bool $A.default("false") $A.since("v1.6") $A.doc("Seal the key only while Secure Boot is on.");
  options @1 :TpmOptions $A.since("v1.12") $A.ifGiven $A.keepEmpty
      $A.doc("What the key is sealed to besides the TPM; {} is nothing else.");
}

struct TpmOptions @0xe57d13b8c2096fa4 {
  pcrs @0 :List(UInt32) $A.default("[7]") $A.since("v1.12")
      $A.doc("Registers of the TPM (PCRs), 0 to 23, whose values must be as they were when the key was sealed. With [] the "
             "key is sealed to the TPM alone.");
}

struct StaticKey @0xd472e778fca03bdf {
  passphrase @0 :Text $A.secret $A.doc("Passphrase.");
}

struct NodeId @0xe2332f2eaf6b07d2 {}
struct RecoveryKey @0x8297598c44bec8df {}
