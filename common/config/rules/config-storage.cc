// machine.disks, install, files and systemDiskEncryption.

#include <map>
#include <set>
#include <string>

#include "common/base/error.h"
#include "common/config/rules/config-check.h"
#include "common/config/rules/containerd-part.h"
#include "common/disk/sealed-key-names.h"
#include "common/net/http-url.h"
#include "common/net/text-values.h"
#include "common/tls/signature.h"

namespace talos::config {
namespace {

constexpr unsigned kKeySlots = 32, kAllPermissions = 07777;
constexpr kj::StringPtr kManifests = "/etc/kubernetes/manifests/"_kj;

void checkDevice(Report& report, kj::StringPtr path, kj::StringPtr device) {
  if (device.size() == 0) {
    if (report.has(path))
      report.error(path, kj::str("the path of the disk is empty"), "for example /dev/sdb");
  } else if (!device.startsWith("/dev/") || !isCleanPath(device)) {
    report.error(path, kj::str("\"", device, "\" is not a valid path of a block device"),
                 "for example /dev/sdb");
  }
}

void checkPartitions(Report& report, kj::StringPtr disk, capnp::List<Partition>::Reader partitions,
                     std::map<std::string, std::string>& mountpoints) {
  size_t i = 0;
  for (auto partition : partitions) {
    auto path = kj::str(disk, ".partitions[", i, "]");
    auto place = kj::str(path, ".size");
    bool last = ++i == partitions.size();
    uint64_t size = 0;
    bool good = true;
    if (partition.getSize().size() > 0) {
      KJ_IF_MAYBE (octets, parseSize(partition.getSize())) {
        size = *octets;
      } else {
        good = false;
        report.error(place, kj::str("\"", partition.getSize(), "\" is not a valid size"),
                     "for example 10GB, 4GiB or a number of bytes");
      }
    }
    if (good && size == 0 && !last) {
      report.error(place, kj::str("only the last partition can take the rest of the disk"),
                   "set the size of this one, for example 10GB");
    }
    place = kj::str(path, ".mountpoint");
    auto mountpoint = partition.getMountpoint();
    report.absolutePath(place, mountpoint);
    if (!isCleanPath(mountpoint)) continue;
    if (!mountpoint.startsWith("/var/"))
      report.warn(place, kj::str("\"", mountpoint, "\" is not below /var, where data should be"));
    auto [other, fresh] =
        mountpoints.emplace(withoutLastSlash(mountpoint).cStr(), mountpoint.cStr());
    if (fresh) continue;
    auto duplicate = kj::str("duplicate path: another partition is mounted here too");
    if (mountpoint == other->second.c_str()) {
      report.error(place, kj::mv(duplicate));
    } else {  // a / at the end made them two
      report.laterError(place, kj::mv(duplicate));
    }
  }
}

void checkDisks(Report& report, capnp::List<Disk>::Reader disks) {
  std::set<std::string> devices;
  std::map<std::string, std::string> mountpoints;  // as they are given, by where that is
  size_t i = 0;
  for (auto disk : disks) {
    auto path = kj::str("machine.disks[", i++, "]");
    checkDevice(report, kj::str(path, ".device"), disk.getDevice());
    if (disk.getDevice().size() > 0 && !devices.insert(disk.getDevice().cStr()).second)
      report.error(kj::str(path, ".device"), kj::str("duplicate disk"));
    checkPartitions(report, path, disk.getPartitions(), mountpoints);
  }
}

// Returns true for a text that the boot loader passes on unchanged.
bool isKernelArgument(kj::StringPtr text) {
  for (char c : text) {
    if (c <= ' ' || c > '~' || c == '"' || c == '\'' || c == '\\') return false;
  }
  return text.size() > 0;
}

// Refuses a selector without properties: it would match every disk, and `wipe` erases the first.
void checkDiskSelector(Report& report, DiskSelector::Reader selector) {
  constexpr auto kPath = "machine.install.diskSelector"_kj;
  auto size = selector.getSize();
  if (size.size() > 0 && parseSizeRule(size) == nullptr) {
    report.error(kj::str(kPath, ".size"), kj::str("\"", size, "\" is not a valid size"),
                 "for example 100GB, >= 100GB or < 1TiB");
  }
  bool any = selector.getType() != DiskType::ANY;
  for (auto pattern :
       {size, selector.getName(), selector.getModel(), selector.getSerial(), selector.getModalias(),
        selector.getUuid(), selector.getWwid(), selector.getBusPath()}) {
    any |= pattern.size() > 0;
  }
  if (!any && report.isWhollyRead(kPath)) {
    report.laterError(kPath, kj::str("selects any disk"),
                      "give it a property of the disk, for example size: \">= 100GB\"");
  }
}

void checkInstall(Report& report, Install::Reader install) {
  report.image("machine.install.image", install.getImage());
  if (install.getDisk().size() > 0) checkDevice(report, "machine.install.disk", install.getDisk());
  if (install.hasDiskSelector()) {
    checkDiskSelector(report, install.getDiskSelector());
    if (install.getDisk().size() > 0) {
      report.warn("machine.install.disk", kj::str("not used, because there is a diskSelector"));
    }
  }
  size_t i = 0;
  for (auto argument : install.getExtraKernelArgs()) {
    auto path = kj::str("machine.install.extraKernelArgs[", i++, "]");
    if (isKernelArgument(argument)) continue;
    report.error(path, kj::str("\"", argument, "\" is not a valid kernel argument"),
                 "one argument without blanks, quotes and backslashes, such as console=ttyS1");
  }
  if (install.getImageKey().size() > 0) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { pki::VerifyKey key(install.getImageKey()); })) {
      report.error("machine.install.imageKey", messageOf(*e),
                   "use the block that openssl pkey -pubout writes");
    }
  }
}

// Refuses paths that are in memory while the system runs, and links of the image to them.
void checkFilePath(Report& report, kj::StringPtr path, kj::StringPtr target) {
  report.absolutePath(path, target);
  if (!isCleanPath(target)) return;
  if (target.endsWith("/"))
    report.error(path, kj::str("\"", target, "\" is a directory"), "leave out the / at its end");
  for (auto folder : {"/dev/"_kj, "/proc/"_kj, "/run/"_kj, "/sys/"_kj, "/system/"_kj, "/tmp/"_kj,
                      "/var/system/"_kj}) {
    if (target.startsWith(folder))
      report.error(path, kj::str(folder, " is reserved for the system"), "put files below /var");
  }
  for (auto own : {"hosts"_kj, "hostname"_kj, "resolv.conf"_kj}) {
    if (target == kj::str("/etc/", own)) {
      report.error(path, kj::str(target, " is written by the system"),
                   "use machine.network: hostname, extraHostEntries and nameservers");
    }
  }
}

void checkContainerdPart(Report& report, kj::StringPtr path, kj::StringPtr content,
                         ContainerdPart& part) {
  for (auto& mistake : part.add(content.asArray())) {
    if (mistake.warning) {
      report.warn(path, kj::mv(mistake.message), mistake.hint);
    } else {
      report.error(path, kj::mv(mistake.message), mistake.hint);
    }
  }
}

void checkFiles(Report& report, capnp::List<File>::Reader files) {
  size_t i = 0;
  ContainerdPart containerd;
  for (auto file : files) {
    auto path = kj::str("machine.files[", i++, "]");
    checkFilePath(report, kj::str(path, ".path"), file.getPath());
    if (file.getPermissions() > kAllPermissions) {
      report.error(kj::str(path, ".permissions"), kj::str("not a valid mode; at most 0o7777"),
                   "for example 0644");
    }
    auto target = file.getPath();
    if (target == kContainerdPart) {
      checkContainerdPart(report, kj::str(path, ".content"), file.getContent(), containerd);
      continue;
    }
    bool inPlace = target.startsWith("/var/") ||
                   (target.startsWith(kManifests) && target.findLast('/') == kManifests.size() - 1);
    if (isCleanPath(target) && file.getOp() == FileOp::CREATE && report.has(kj::str(path, ".op")) &&
        !inPlace) {
      report.error(kj::str(path, ".op"),
                   kj::str("a file can be created only below /var, not \"", target, "\""),
                   "use overwrite or append to change a file of the system");
    }
  }
}

void checkPcrs(Report& report, kj::StringPtr path, TpmKey::Reader key) {
  std::set<uint32_t> numbers;
  size_t i = 0;
  for (auto pcr : key.getOptions().getPcrs()) {
    auto place = kj::str(path, "[", i++, "]");
    if (pcr >= kPcrs) {
      report.error(place, kj::str(pcr, " is not a register of a TPM"), "must be 0 to 23");
    } else if (!numbers.insert(pcr).second) {
      report.error(place, kj::str("register ", pcr, " is a duplicate"));
    }
  }
}

void checkKmsEndpoint(Report& report, kj::StringPtr path, kj::StringPtr endpoint) {
  if (!report.has(path)) return;  // reported as missing
  if (parseGrpcEndpoint(endpoint) == nullptr) {
    report.laterError(
        path, kj::str("\"", endpoint, "\" is not a valid endpoint of a key server"),
        "for example https://kms.example.org:4050, or grpc://192.0.2.5:4050 without TLS");
  } else if (endpoint.startsWith("http://")) {
    report.warn(path, kj::str("this server is called with TLS, as with every scheme but grpc"),
                "use https://, or grpc:// for a connection without TLS");
  }
}

// Returns the kind of the key that takes precedence; empty if the node cannot make the key.
kj::StringPtr kindOfKey(EncryptionKey::Reader key) {
  return key.hasStatic()   ? "static"_kj
         : key.hasNodeID() ? "nodeID"_kj
         : key.hasKms()    ? "kms"_kj
         : key.hasTpm()    ? "tpm"_kj
                           : nullptr;
}

void checkKey(Report& report, kj::StringPtr path, EncryptionKey::Reader key) {
  auto first = kindOfKey(key);
  if (first.size() == 0 && !key.hasRecovery()) {
    report.error(path, kj::str("kind of the key is missing"),
                 "use static: {passphrase: …}, nodeID: {}, kms: {endpoint: …}, tpm: {} or "
                 "recovery: {}");
    return;
  }
  if (key.hasRecovery() && first.size() > 0) {
    report.error(kj::str(path, ".recovery"),
                 kj::str("the node has no key of this kind, so the slot cannot have another one"),
                 "give each key a slot of its own");
  }
  auto noteOther = [&](bool isSet, kj::StringPtr kind) {
    if (!isSet || kind == first) return;
    report.warn(kj::str(path, ".", kind), kj::str(first, " is set too and takes precedence"));
  };
  noteOther(key.hasNodeID(), "nodeID");
  noteOther(key.hasKms(), "kms");
  noteOther(key.hasTpm(), "tpm");
  if (key.hasKms())
    checkKmsEndpoint(report, kj::str(path, ".kms.endpoint"), key.getKms().getEndpoint());
  if (key.hasTpm()) checkPcrs(report, kj::str(path, ".tpm.options.pcrs"), key.getTpm());
  if (!key.hasStatic()) return;
  if (key.getStatic().getPassphrase().size() == 0) {
    report.error(kj::str(path, ".static.passphrase"), kj::str("passphrase is missing"));
  }
}

constexpr auto kReadable = "readable_in_meta"_kj;

void checkSizes(Report& report, kj::StringPtr path, Encryption::Reader encryption, bool state) {
  auto keySize = encryption.getKeySize(), blockSize = encryption.getBlockSize();
  if (report.has(kj::str(path, ".keySize")) && keySize != 256 && keySize != 512) {
    report.error(kj::str(path, ".keySize"), kj::str(keySize, " is not a valid size of a key"),
                 "use 256 or 512");
  }
  bool good = blockSize == 512 || blockSize == 1024 || blockSize == 2048 || blockSize == 4096;
  if (report.has(kj::str(path, ".blockSize")) && !good) {
    report.error(kj::str(path, ".blockSize"),
                 kj::str(blockSize, " is not a valid size of a sector"),
                 "use 512, 1024, 2048 or 4096");
  }
  size_t i = 0;
  for (auto option : encryption.getOptions()) {
    auto place = kj::str(path, ".options[", i++, "]");
    if (option == "no_read_workqueue" || option == "no_write_workqueue" ||
        option == "same_cpu_crypt" || (state && option == kReadable)) {
      continue;
    }
    report.error(
        place, kj::str("\"", option, "\" is not a valid option"),
        state ? "use no_read_workqueue, no_write_workqueue, same_cpu_crypt or readable_in_meta"
              : "use no_read_workqueue, no_write_workqueue or same_cpu_crypt");
  }
}

// Checks that STATE can be opened before the config is read: with a key from the machine itself, or
// from META, which is not encrypted.
void checkOpenable(Report& report, kj::StringPtr path, Encryption::Reader encryption) {
  auto list = encryption.getKeys();
  bool own = false, text = false, readable = false;
  for (auto key : list) {
    own = own || (kindOfKey(key).size() > 0 && !key.hasStatic());
    text = text || key.hasStatic();
  }
  size_t i = 0;
  for (auto option : encryption.getOptions()) {
    auto place = kj::str(path, ".options[", i++, "]");
    if (option != kReadable) continue;
    readable = true;
    if (!text) continue;
    report.warn(place,
                kj::str("META is not encrypted, so whoever has the disk can read the passphrases "
                        "of static keys and open STATE"));
  }
  auto keys = kj::str(path, ".keys");
  if (!own && !text && list.size() > 0) {
    report.error(keys, kj::str("STATE, where the config is kept, needs a key that is not in it"),
                 "add one with nodeID: {}");
  }
  i = 0;
  for (auto key : list) {
    auto place = kj::str(keys, "[", i++, "].static");
    if (own || readable || !key.hasStatic()) continue;
    report.warn(place,
                kj::str("this passphrase is stored in META too, which is not encrypted, so whoever "
                        "has the disk can read it and open STATE"),
                "add a key with nodeID: {} to keep the passphrase out of META");
  }
}

// Checks the keys of EPHEMERAL, which is opened when the config is known.
void checkOwn(Report& report, kj::StringPtr keys, capnp::List<EncryptionKey>::Reader list) {
  bool own = list.size() == 0;
  for (auto key : list) own = own || kindOfKey(key).size() > 0 || !key.hasRecovery();
  if (own) return;
  report.error(keys, kj::str("the node has none of these keys, so it could not open the volume"),
               "add one with nodeID: {} or static: {passphrase: …}");
}

void checkEncryption(Report& report, kj::StringPtr path, Encryption::Reader encryption,
                     bool state) {
  auto provider = encryption.getProvider(), cipher = encryption.getCipher();
  if (provider.size() > 0 && provider != "luks2") {
    report.error(kj::str(path, ".provider"), kj::str("\"", provider, "\" is not supported"),
                 "use luks2");
  }
  if (cipher.size() > 0 && cipher != "aes-xts-plain64") {
    report.error(kj::str(path, ".cipher"), kj::str("\"", cipher, "\" is not supported"),
                 "use aes-xts-plain64");
  }
  checkSizes(report, path, encryption, state);
  auto keys = kj::str(path, ".keys");
  if (encryption.getKeys().size() == 0) {
    report.error(keys, kj::str("an encrypted partition needs at least one key"),
                 "for example [{nodeID: {}, slot: 0}]");
  }
  std::set<uint32_t> slots;
  size_t i = 0;
  for (auto key : encryption.getKeys()) {
    auto place = kj::str(keys, "[", i++, "]");
    checkKey(report, place, key);
    if (key.getSlot() >= kKeySlots) {
      report.error(kj::str(place, ".slot"), kj::str(key.getSlot(), " is not a valid slot"),
                   "must be 0 to 31");
    } else if (!slots.insert(key.getSlot()).second) {
      report.error(kj::str(place, ".slot"), kj::str("slot ", key.getSlot(), " is a duplicate"));
    }
  }
  if (state) checkOpenable(report, path, encryption);
  if (!state) checkOwn(report, keys, encryption.getKeys());
}

}  // namespace

void checkStorage(Report& report, Machine::Reader machine) {
  checkDisks(report, machine.getDisks());
  checkInstall(report, machine.getInstall());
  checkFiles(report, machine.getFiles());
  auto encryption = machine.getSystemDiskEncryption();
  constexpr auto kPath = "machine.systemDiskEncryption"_kj;
  if (encryption.hasState())
    checkEncryption(report, kj::str(kPath, ".state"), encryption.getState(), true);
  if (encryption.hasEphemeral())
    checkEncryption(report, kj::str(kPath, ".ephemeral"), encryption.getEphemeral(), false);
  auto volumes = machine.getVolumes();
  for (auto i : kj::indices(volumes)) {
    if (!volumes[i].hasEncryption()) continue;
    checkEncryption(report, kj::str("machine.volumes[", i, "].encryption"),
                    volumes[i].getEncryption(), false);
  }
}

}  // namespace talos::config
