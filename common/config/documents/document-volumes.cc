// Documents of volumes: those of users, and the size and encryption of those of the system; and of
// the disk that gets the system.
//
// The node alone knows its disks, so only machined/disk/volumes/volume-plan.h says which disk fits.

#include "common/cel/volume-selectors.h"
#include "common/config/documents/document-reader.h"
#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"
#include "common/text/ascii.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

constexpr size_t kLongestName = 34;           // a label has 36 characters, with "u-" in front
constexpr size_t kLongestExistingName = 255;  // of a folder
constexpr kj::StringPtr kVolumes = "machine.volumes"_kj, kMountFolder = "/var/mnt/"_kj;
constexpr kj::StringPtr kStateEncryption = "machine.systemDiskEncryption.state"_kj,
                        kEphemeralEncryption = "machine.systemDiskEncryption.ephemeral"_kj;
constexpr uint64_t kMiB = 1u << 20;
constexpr kj::StringPtr kSizeForm = "for example 10GiB, 80%, or -20GiB to leave so much free"_kj;
constexpr kj::StringPtr
    kDiskExample = "for example !system_disk && disk.size > 100u * GiB"_kj,
    kVolumeExample = "for example volume.partition_label == \"data\""_kj,
    kKeyForm = "use nodeID: {}, static: {passphrase: …}, kms: {endpoint: …} or tpm: {}"_kj;

bool isVolumeName(kj::StringPtr name, size_t most) {
  for (char c : name) {
    if (!isAlphanumeric(c) && c != '-') return false;
  }
  return name.size() > 0 && name.size() <= most;
}

// Returns true if the document has the key with anything in it.
bool hasEntries(const Document& document, kj::StringPtr key) {
  for (auto& entry : document.node.entries) {
    if (entry.key != key) continue;
    return !entry.value->entries.empty() || entry.value->kind == codec::YamlNode::Kind::kScalar;
  }
  return false;
}

bool isOff(capnp::List<document::RawSetting>::Reader block) {
  for (auto setting : block) {
    auto value = kj::heapString(trimmed(setting.getValue().asArray()));  // it ends with a newline
    if (setting.getKey() == "enabled" && value == "false") return true;
  }
  return false;
}

// Refuses the block that checks the file system. In Talos an empty one acts, too.
void refuseScrub(DocumentDecoder& decoder, const Document& document,
                 capnp::List<document::RawSetting>::Reader block) {
  if (!document.places.has("scrub") || isOff(block)) return;
  decoder.refuse(document, "scrub", "this system has no program that checks mounted file systems");
}

void copyTpm(document::VolumeEncryption::TpmKey::Reader from, TpmKey::Builder to) {
  to.setCheckSecurebootStatusOnEnroll(from.getCheckSecurebootStatusOnEnroll());
  if (!from.hasOptions()) return;
  auto pcrs = from.getOptions().getPcrs();
  auto list = to.initOptions().initPcrs(pcrs.size());
  for (auto i : kj::indices(pcrs)) list.set(i, pcrs[i]);
}

kj::StringPtr prefixOf(StorageVolume::Kind kind) {
  switch (kind) {
    case StorageVolume::Kind::RAW:
      return "r-"_kj;
    case StorageVolume::Kind::SWAP:
      return "s-"_kj;
    case StorageVolume::Kind::EXISTING:
      return "e-"_kj;
    default:
      return "u-"_kj;
  }
}

// Returns the whole percents of "80%" or "80.5%"; nullptr for other texts.
kj::Maybe<uint8_t> percentIn(kj::StringPtr text) {
  if (!text.endsWith("%") || text.size() < 2) return nullptr;
  auto number = kj::str(text.slice(0, text.size() - 1));
  for (char c : number) {
    if (!isDigit(c) && c != '.') return nullptr;
  }
  KJ_IF_MAYBE (value, number.tryParseAs<double>()) {
    if (*value >= 0 && *value <= 100) return static_cast<uint8_t>(*value);
  }
  return nullptr;
}

}  // namespace

VolumeDocuments::VolumeDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder), view(view), volumes(0), trims(0) {
  auto disks = view.asReader().getMachine().getDisks();
  for (auto d : kj::indices(disks)) {
    auto partitions = disks[d].getPartitions();
    for (auto p : kj::indices(partitions)) {
      mountpoints.emplace(withoutLastSlash(partitions[p].getMountpoint()).cStr(),
                          kj::str("machine.disks[", d, "].partitions[", p, "]").cStr());
    }
  }
}

void VolumeDocuments::write() {
  volumes.write(view.asReader().getMachine().getVolumes(),
                [&](unsigned size) { return view.getMachine().initVolumes(size); });
  trims.write(view.asReader().getMachine().getTrims(),
              [&](unsigned size) { return view.getMachine().initTrims(size); });
}

kj::Maybe<StorageVolume::Builder> VolumeDocuments::add(Document& document, kj::StringPtr name,
                                                       StorageVolume::Kind kind, bool mounted) {
  bool existing = kind == StorageVolume::Kind::EXISTING;
  if (!isVolumeName(name, existing ? kLongestExistingName : kLongestName)) {
    decoder.report(document, "name", kj::str(jsonString(name), " is not a valid name of a volume"),
                   existing ? "use letters, digits and -" : "use 1 to 34 letters, digits and -");
    return nullptr;
  }
  auto mountpoint = kj::str(kMountFolder, name);
  if (mounted) {
    auto [other, fresh] = mountpoints.emplace(mountpoint.cStr(), document.label.cStr());
    if (!fresh) {
      decoder.report(document, "name",
                     kj::str(other->second.c_str(), " is mounted at ", mountpoint, ", too"),
                     "give it another name");
      return nullptr;
    }
  }
  kj::String path;
  auto out = volumes.add(kVolumes, path);
  out.setId(kj::str(prefixOf(kind), name));
  out.setKind(kind);
  if (mounted) out.setMountpoint(mountpoint);
  decoder.from(document, "", path);
  return out;
}

void VolumeDocuments::selector(Document& document, document::VolumeProvisioning::Reader settings,
                               StorageVolume::Builder out) {
  constexpr auto kKey = "provisioning.diskSelector.match"_kj;
  auto text = settings.getDiskSelector().getMatch();
  if (text.size() == 0) {
    decoder.report(document, document.places.has(kKey) ? kKey : "provisioning"_kj,
                   kj::str("a volume needs a selector of its disk"),
                   "set provisioning.diskSelector.match, for example '!system_disk'");
    return;
  }
  KJ_IF_MAYBE (mistake, cel::compileDiskSelector(text).mistake) {
    decoder.report(document, kKey, kj::str("in the expression, ", cel::render(text, *mistake)),
                   kDiskExample);
  }
  out.setSelector(text);
}

void VolumeDocuments::maximum(Document& document, kj::StringPtr text, VolumeSize::Builder out) {
  constexpr auto kKey = "provisioning.maxSize"_kj;
  bool leaves = text.startsWith("-");
  auto amount = text.slice(leaves ? 1 : 0);
  out.setLeavesMost(leaves);
  KJ_IF_MAYBE (percent, percentIn(amount)) {
    out.setMostPercent(*percent);
    if (leaves && *percent == 100) {
      return decoder.report(document, kKey, kj::str(jsonString(text), " leaves the volume nothing"),
                            "use at most -99%");
    }
    if (*percent > 0) return;
  } else KJ_IF_MAYBE (bytes, parseSize(amount)) {
    out.setMost(*bytes);
    if (*bytes > 0) return;
  }
  decoder.report(document, kKey, kj::str(jsonString(text), " is not a valid size"), kSizeForm);
}

void VolumeDocuments::sizes(Document& document, document::VolumeProvisioning::Reader settings,
                            VolumeSize::Builder out, Least bounds) {
  auto minimum = settings.getMinSize(), most = settings.getMaxSize();
  auto least = bounds.usual;
  out.setGrows(settings.getGrow());
  if (most.size() > 0) maximum(document, most, out);
  if (minimum.size() > 0) {
    KJ_IF_MAYBE (bytes, parseSize(minimum)) {
      least = *bytes;
    } else {
      decoder.report(document, "provisioning.minSize",
                     kj::str(jsonString(minimum), " is not a valid size"),
                     "for example 10GiB, or a number of bytes");
    }
  }
  if (out.getMost() > 0 && !out.getLeavesMost()) {
    auto whole = out.getMost() / kMiB * kMiB;  // what the partition then has
    if (minimum.size() > 0 && least > out.getMost()) {
      decoder.report(document, "provisioning.minSize", kj::str("it is larger than maxSize"),
                     "swap the two");
    } else if (whole < bounds.possible) {
      decoder.report(document, "provisioning.maxSize",
                     kj::str(jsonString(most), " is too small for this volume"),
                     kj::str("use at least ", bounds.possible / kMiB, "MiB"));
    }
    least = kj::min(least, whole);
  }
  out.setLeast(kj::max(least, bounds.possible));
}

void VolumeDocuments::encryption(Document& document, document::VolumeEncryption::Reader settings,
                                 Encryption::Builder out) {
  if (settings.getAllowDiscards()) {
    decoder.refuse(document, "encryption.allowDiscards",
                   "this system does not pass discards through an encrypted volume");
  }
  out.setProvider(settings.getProvider());
  if (settings.getCipher().size() > 0) out.setCipher(settings.getCipher());
  if (settings.getKeySize() > 0) out.setKeySize(settings.getKeySize());
  if (settings.getBlockSize() > 0) out.setBlockSize(settings.getBlockSize());
  if (settings.getOptions().size() > 0) out.setOptions(settings.getOptions());
  auto keys = settings.getKeys();
  auto list = out.initKeys(keys.size());
  for (auto i : kj::indices(keys)) {
    auto place = kj::str("encryption.keys[", i, "]");
    auto at = [&](kj::StringPtr key) { return kj::str(place, ".", key); };
    bool known = keys[i].hasNodeID() || keys[i].hasStatic() || keys[i].hasKms() || keys[i].hasTpm();
    if (!known) decoder.report(document, place, kj::str("kind of the key is missing"), kKeyForm);
    if (keys[i].getLockToState()) {
      decoder.refuse(document, at("lockToState"), "this system does not lock keys to STATE");
    }
    list[i].setSlot(keys[i].getSlot());
    if (keys[i].hasNodeID()) list[i].initNodeID();
    if (keys[i].hasStatic())
      list[i].initStatic().setPassphrase(keys[i].getStatic().getPassphrase());
    if (keys[i].hasKms()) list[i].initKms().setEndpoint(keys[i].getKms().getEndpoint());
    if (keys[i].hasTpm()) copyTpm(keys[i].getTpm(), list[i].initTpm());
  }
}

void VolumeDocuments::options(Document& document, document::VolumeMount::Reader settings,
                              StorageVolume::Builder out) {
  out.setInsecure(!settings.getSecure());
  out.setNoAccessTimes(settings.getDisableAccessTime());
  out.setReadOnly(settings.getReadOnly());
}

void VolumeDocuments::filesystem(Document& document, document::VolumeFilesystem::Reader settings) {
  auto type = settings.getType();
  if (type.size() > 0 && type != "xfs") {
    decoder.report(document, "filesystem.type",
                   kj::str("this system does not make ", jsonString(type), " file systems"),
                   "use xfs");
  }
  if (settings.getProjectQuotaSupport()) {
    decoder.refuse(document, "filesystem.projectQuotaSupport",
                   "this system does not mount with quotas of projects");
  }
  if (settings.getXfs().size() > 0) {
    decoder.refuse(document, "filesystem.xfs",
                   "this system makes XFS with the defaults of mkfs.xfs");
  }
}

uint64_t VolumeDocuments::interval(Document& document, kj::StringPtr key, kj::StringPtr text) {
  if (text.size() == 0) return 0;
  KJ_IF_MAYBE (length, parseDuration(text)) {
    if (*length == 0 * kj::SECONDS) return 0;
    return kj::max(static_cast<uint64_t>(*length / kj::SECONDS), 1);
  }
  decoder.report(document, key, kj::str(jsonString(text), " is not a valid duration"),
                 "for example 168h");
  return 0;
}

void VolumeDocuments::addTrim(Document& document, kj::StringPtr key, kj::StringPtr mountpoint,
                              uint64_t seconds) {
  kj::String path;
  auto rule = trims.add("machine.trims", path);
  rule.setMountpoint(mountpoint);
  rule.setSeconds(seconds);
  decoder.from(document, key, path);
}

void VolumeDocuments::trim(Document& document, document::FilesystemTrim::Reader settings,
                           kj::StringPtr mountpoint) {
  auto seconds = interval(document, "trim.interval", settings.getInterval());
  if (!settings.getEnabled()) return addTrim(document, "trim", mountpoint, 0);
  if (seconds > 0) addTrim(document, "trim", mountpoint, seconds);
}

void VolumeDocuments::trimOfAll(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::FilesystemTrimConfig>(document)) {
    auto seconds = interval(document, "interval", d->getInterval());
    if (seconds > 0) addTrim(document, "interval", "", seconds);
  }
}

void VolumeDocuments::placed(Document& document, document::VolumeProvisioning::Reader settings,
                             StorageVolume::Builder out, uint64_t possible) {
  selector(document, settings, out);
  if (settings.getMinSize().size() == 0 && settings.getMaxSize().size() == 0) {
    decoder.report(document, "provisioning", kj::str("a volume needs a size"),
                   "set minSize, maxSize or both");
  }
  sizes(document, settings, out.initSize(), {.usual = 100 * kMiB, .possible = possible});
}

void VolumeDocuments::userPartition(Document& document,
                                    document::UserVolumeConfig::Reader settings) {
  KJ_IF_MAYBE (out, add(document, settings.getName(), StorageVolume::Kind::PARTITION, true)) {
    // A smaller XFS has no room for its log. The header of an encrypted one has 16 MiB.
    placed(document, settings.getProvisioning(), *out, (settings.hasEncryption() ? 64 : 32) * kMiB);
    out->setFilesystem("xfs");
    filesystem(document, settings.getFilesystem());
    options(document, settings.getMount(), *out);
    trim(document, settings.getTrim(), out->getMountpoint());
    if (settings.getMount().getReadOnly()) {
      decoder.refuse(document, "mount.readOnly", "an empty volume that is read-only has no use");
    }
    if (settings.hasEncryption())
      encryption(document, settings.getEncryption(), out->initEncryption());
  }
}

void VolumeDocuments::directory(Document& document, document::UserVolumeConfig::Reader settings) {
  for (auto key : {"provisioning"_kj, "encryption"_kj, "filesystem"_kj, "mount"_kj, "trim"_kj}) {
    if (!hasEntries(document, key)) continue;
    decoder.refuse(document, key, "a directory is on EPHEMERAL, and has no such settings");
  }
  (void)add(document, settings.getName(), StorageVolume::Kind::DIRECTORY, true);
}

void VolumeDocuments::userVolume(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::UserVolumeConfig>(document)) {
    auto type = d->getVolumeType();
    refuseScrub(decoder, document, d->getScrub());
    if (type.size() == 0 || type == "partition") return userPartition(document, *d);
    if (type == "directory") return directory(document, *d);
    bool disk = type == "disk";
    decoder.report(
        document, "volumeType",
        disk ? kj::str("this system does not make a file system on a disk without partitions")
             : kj::str(jsonString(type), " is not a valid type of a volume"),
        disk ? "use partition, with maxSize: 100%" : "use partition or directory");
  }
}

// Reads a volume that has neither a file system nor a mount point.
template <typename Reader>
void VolumeDocuments::barePartition(Document& document, Reader settings, StorageVolume::Kind kind) {
  decoder.refuse(document, "encryption", "this system encrypts only volumes with a file system");
  KJ_IF_MAYBE (out, add(document, settings.getName(), kind, false)) {
    placed(document, settings.getProvisioning(), *out, kMiB);
  }
}

void VolumeDocuments::rawVolume(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::RawVolumeConfig>(document)) {
    barePartition(document, *d, StorageVolume::Kind::RAW);
  }
}

void VolumeDocuments::swapVolume(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::SwapVolumeConfig>(document)) {
    barePartition(document, *d, StorageVolume::Kind::SWAP);
  }
}

void VolumeDocuments::existingVolume(Document& document) {
  constexpr auto kKey = "discovery.volumeSelector.match"_kj;
  KJ_IF_MAYBE (d, decoder.decode<document::ExistingVolumeConfig>(document)) {
    refuseScrub(decoder, document, d->getScrub());
    decoder.refuse(document, "encryption", "this system does not open encrypted volumes of others");
    auto text = d->getDiscovery().getVolumeSelector().getMatch();
    KJ_IF_MAYBE (mistake, cel::compileVolumeSelector(text).mistake) {
      decoder.report(document, kKey, kj::str("in the expression, ", cel::render(text, *mistake)),
                     kVolumeExample);
    }
    KJ_IF_MAYBE (out, add(document, d->getName(), StorageVolume::Kind::EXISTING, true)) {
      out->setSelector(text);
      options(document, d->getMount(), *out);
      trim(document, d->getTrim(), out->getMountpoint());
    }
  }
}

void VolumeDocuments::systemVolume(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::VolumeConfig>(document)) {
    bool state = d->getName() == "STATE";
    if (!state && d->getName() != "EPHEMERAL") {
      return decoder.report(document, "name",
                            kj::str("this system has no volume ", jsonString(d->getName())),
                            "use STATE or EPHEMERAL");
    }
    auto errors = decoder.errors();
    SecretMessage scratch;
    auto found = scratch.initRoot<Machine>();
    refuseScrub(decoder, document, d->getScrub());
    trim(document, d->getTrim(), state ? "/system/state" : "/var");
    filesystem(document, d->getFilesystem());
    systemMount(document, d->getMount(), state);
    if (d->hasProvisioning()) systemSize(document, d->getProvisioning(), state, found);
    if (d->hasEncryption()) systemEncryption(document, d->getEncryption(), state, found);
    if (decoder.errors() == errors) setSystem(document, found.asReader());
  }
}

void VolumeDocuments::systemMount(Document& document, document::VolumeMount::Reader settings,
                                  bool state) {
  if (state) {
    if (!hasEntries(document, "mount")) return;
    return decoder.refuse(document, "mount", "how STATE is mounted cannot be set");
  }
  if (settings.getReadOnly()) {
    decoder.refuse(document, "mount.readOnly", "the node writes to its own volumes");
  }
  if (!settings.getDisableAccessTime()) {
    decoder.refuse(document, "mount.disableAccessTime",
                   "the volumes of the system are always mounted with noatime");
  }
  if (settings.getSecure()) return;
  decoder.report(document, "mount.secure",
                 kj::str("the volumes of the system are always mounted with nosuid and nodev"),
                 "remove it");
}

void VolumeDocuments::systemSize(Document& document, document::VolumeProvisioning::Reader settings,
                                 bool state, Machine::Builder out) {
  if (state) {
    if (!hasEntries(document, "provisioning")) return;
    return decoder.refuse(document, "provisioning",
                          "STATE always has 100 MiB on the disk of the system");
  }
  auto match = settings.getDiskSelector().getMatch();
  if (match.size() > 0 && match != "system_disk") {
    decoder.report(document, "provisioning.diskSelector.match",
                   kj::str("EPHEMERAL is the partition after STATE, on the disk of the system"),
                   "remove it, and use a UserVolumeConfig for another disk");
  }
  auto size = out.initEphemeralSize();
  sizes(document, settings, size, {.usual = 2048 * kMiB, .possible = 520 * kMiB});
  if (!document.places.has("provisioning.grow")) size.setGrows(true);
}

void VolumeDocuments::systemEncryption(Document& document,
                                       document::VolumeEncryption::Reader settings, bool state,
                                       Machine::Builder out) {
  auto present = view.asReader().getMachine().getSystemDiskEncryption();
  if (state ? present.hasState() : present.hasEphemeral()) {
    return decoder.report(
        document, "encryption",
        kj::str(state ? kStateEncryption : kEphemeralEncryption, " is set as well"),
        "remove one of the two");
  }
  auto all = out.initSystemDiskEncryption();
  encryption(document, settings, state ? all.initState() : all.initEphemeral());
}

void VolumeDocuments::setSystem(Document& document, Machine::Reader found) {
  auto machine = view.getMachine();
  if (found.hasEphemeralSize()) {
    machine.setEphemeralSize(found.getEphemeralSize());
    decoder.from(document, "provisioning", "machine.ephemeralSize");
  }
  auto all = found.getSystemDiskEncryption();
  if (all.hasState()) {
    machine.getSystemDiskEncryption().setState(all.getState());
    encryptionFrom(document, kStateEncryption);
  }
  if (all.hasEphemeral()) {
    machine.getSystemDiskEncryption().setEphemeral(all.getEphemeral());
    encryptionFrom(document, kEphemeralEncryption);
  }
  if (all.hasState() || all.hasEphemeral()) encrypts.add(kj::str(document.label, ".encryption"));
}

// The keys of the block have the same names in the view.
void VolumeDocuments::encryptionFrom(Document& document, kj::StringPtr inView) {
  decoder.fromAllOf(document, "encryption", inView);
}

}  // namespace talos::config
