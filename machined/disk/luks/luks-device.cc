#include "machined/disk/luks/luks-device.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <libcryptsetup.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/disk/empty-partition.h"
#include "common/memory/zeroize.h"
#include "machined/disk/tpm/sealed-key.h"

namespace talos::luks {
namespace {

constexpr size_t kSector = 512, kPiece = 1u << 20;
constexpr char kMark[] = "machined: this partition is being formatted as LUKS2\n";
constexpr kj::StringPtr kFreshType = "talos-fresh"_kj;
constexpr char kFreshToken[] = R"({"type":"talos-fresh","keyslots":[]})";

kj::AutoCloseFd openDevice(kj::StringPtr path, int flags) {
  int fd = open(path.cStr(), flags | O_CLOEXEC);
  if (fd < 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str("cannot open ", path, ": ", strerror(errno)));
  }
  return kj::AutoCloseFd(fd);
}

void writeAt(int fd, kj::ArrayPtr<const kj::byte> bytes, uint64_t at, kj::StringPtr path) {
  while (bytes.size() > 0) {
    ssize_t n;
    KJ_SYSCALL(n = pwrite(fd, bytes.begin(), bytes.size(), static_cast<off_t>(at)), path);
    bytes = bytes.slice(n, bytes.size());
    at += n;
  }
}

void flush(int fd, kj::StringPtr path) {
  KJ_SYSCALL(fsync(fd), path);
}

// Returns up to `size` bytes, fewer at the end.
kj::Array<kj::byte> bytesOf(int fd, size_t size, kj::StringPtr path, uint64_t at = 0) {
  auto bytes = kj::heapArray<kj::byte>(size);
  auto n = readAt(fd, at, bytes, path);
  return kj::heapArray<kj::byte>(bytes.slice(0, n));
}

bool isZero(kj::ArrayPtr<const kj::byte> bytes) {
  for (auto b : bytes) {
    if (b != 0) return false;
  }
  return true;
}

// Checks the place of a header, or all of the device. For a device in use, the first piece is
// enough.
bool isEmpty(int fd, kj::StringPtr path) {
  off_t size;
  KJ_SYSCALL(size = lseek(fd, 0, SEEK_END), path);
  auto end = emptyHeadOf(static_cast<uint64_t>(size));
  for (uint64_t at = 0; at < end; at += kPiece) {
    if (!isZero(bytesOf(fd, kPiece, path, at))) return false;
  }
  return true;
}

bool isMarked(kj::ArrayPtr<const kj::byte> bytes) {
  auto mark = kj::StringPtr(kMark).asBytes();
  return bytes.size() >= kSector && bytes.slice(0, mark.size()) == mark &&
         isZero(bytes.slice(mark.size(), kSector));
}

// The cost of a key does not depend on a benchmark: a machine that was busy when the key was made
// would have a weak key for ever, and on a slow machine the benchmark takes most of the time of
// formatting.
struct crypt_pbkdf_type derivationOf(Derivation how) {
  struct crypt_pbkdf_type type = {};
  type.type = CRYPT_KDF_ARGON2ID;
  type.hash = "sha256";
  type.time_ms = 1;  // would be a benchmark's goal
  type.iterations = how.getPasses();
  type.max_memory_kb = how.getMemory();
  type.parallel_threads = how.getThreads();
  type.flags = CRYPT_PBKDF_NO_BENCHMARK;
  return type;
}

const char* text(kj::ArrayPtr<const kj::byte> passphrase) {
  return reinterpret_cast<const char*>(passphrase.begin());
}

// Decrypts the start of the first sector like dm-crypt with aes-xts-plain64, whose first block
// needs no other block.
bool isXfsDecrypted(kj::ArrayPtr<const kj::byte> block, kj::ArrayPtr<const kj::byte> key) {
  constexpr size_t kBlock = 16;
  auto cipher = key.size() == 64   ? EVP_aes_256_xts()
                : key.size() == 32 ? EVP_aes_128_xts()
                                   : nullptr;
  if (cipher == nullptr || block.size() < kBlock) return false;
  kj::byte tweak[kBlock] = {}, plain[kBlock] = {};
  int size = 0;
  auto context = EVP_CIPHER_CTX_new();
  KJ_REQUIRE(context != nullptr, "no memory for a cipher");
  KJ_DEFER(EVP_CIPHER_CTX_free(context));
  return EVP_DecryptInit_ex(context, cipher, nullptr, key.begin(), tweak) == 1 &&
         EVP_DecryptUpdate(context, plain, &size, block.begin(), kBlock) == 1 &&
         memcmp(plain, "XFSB", 4) == 0;
}

dev_t numberOf(kj::StringPtr path) {
  struct stat info;
  KJ_SYSCALL(stat(path.cStr(), &info), path);
  return S_ISBLK(info.st_mode) ? info.st_rdev : 0;
}

// The file of a header while it is made.
class Scratch {
 public:
  Scratch() {
    int raw;
    KJ_SYSCALL(raw = memfd_create("luks-header", MFD_CLOEXEC));
    fd = kj::AutoCloseFd(raw);
    // It must look like a device with space for more than its header.
    KJ_SYSCALL(ftruncate(fd, 2 * kHeaderBytes));
    path = kj::str("/proc/self/fd/", raw);
  }
  kj::AutoCloseFd fd;
  kj::String path;
};

}  // namespace

Device::Device(kj::StringPtr path) : path(kj::str(path)) {
  auto fd = openDevice(path, O_RDONLY);
  auto begin = bytesOf(fd, kSector, path);
  zerosFirst = isZero(begin);
  if (isMarked(begin) || isUnfinishedXfs(begin) || (zerosFirst && isEmpty(fd, path))) {
    what = Content::EMPTY;
    return;
  }
  fd = nullptr;
  load();
}

kj::Maybe<kj::StringPtr> Device::damage() const {
  if (what != Content::OTHER || !zerosFirst) return nullptr;
  return "begins with zeros and has data behind them, as a volume does whose header was "
         "damaged"_kj;
}

Device::~Device() noexcept(false) {
  if (cd != nullptr) crypt_free(cd);
}

void Device::begin(kj::StringPtr file) {
  if (cd != nullptr) crypt_free(cd);
  cd = nullptr;
  libraryMessages.clear();
  int result = crypt_init(&cd, file.cStr());
  if (result < 0) failed("open", result);
  crypt_set_log_callback(
      cd,
      [](int level, const char* line, void* self) {
        if (level != CRYPT_LOG_ERROR) return;
        size_t size = strlen(line);
        while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '.')) --size;
        static_cast<Device*>(self)->libraryMessages.add(kj::heapString(line, size));
      },
      this);
  crypt_set_rng_type(cd, CRYPT_RNG_RANDOM);
}

void Device::load() {
  begin(path);
  what = crypt_load(cd, CRYPT_LUKS2, nullptr) == 0 ? Content::LUKS : Content::OTHER;
}

void Device::failed(kj::StringPtr doing, int error) {
  auto problem =
      libraryMessages.empty() ? kj::str(strerror(-error)) : kj::strArray(libraryMessages, "; ");
  libraryMessages.clear();
  fail(error == -EBUSY ? ErrorKind::kUnavailable : ErrorKind::kFailedPrecondition,
       kj::str("cannot ", doing, " ", path, ": ", problem));
}

crypt_device* Device::volume() {
  if (what == Content::LUKS) return cd;
  auto problem = libraryMessages.empty() ? kj::str("it has no LUKS2 header")
                                         : kj::strArray(libraryMessages, "; ");
  fail(ErrorKind::kFailedPrecondition, kj::str(path, ": ", problem));
}

kj::Vector<unsigned> Device::slots() {
  kj::Vector<unsigned> used;
  for (unsigned i = 0; i < kSlots; ++i) {
    auto status = crypt_keyslot_status(volume(), static_cast<int>(i));
    if (status == CRYPT_SLOT_ACTIVE || status == CRYPT_SLOT_ACTIVE_LAST) used.add(i);
  }
  return used;
}

kj::StringPtr Device::typeOfToken(unsigned number) {
  const char* type = nullptr;
  auto status = crypt_token_status(cd, static_cast<int>(number), &type);
  return status >= CRYPT_TOKEN_INTERNAL && type != nullptr ? kj::StringPtr(type) : nullptr;
}

kj::Maybe<Token> Device::token(unsigned slot) {
  auto type = typeOfToken(slot);
  for (auto sealed : kSealedTypes) {
    const char* json = nullptr;
    if (type != sealed || crypt_token_json_get(cd, static_cast<int>(slot), &json) < 0) continue;
    return tpm::userDataIn(json).map(
        [&](kj::String&& data) { return Token{sealed, kj::mv(data)}; });
  }
  return nullptr;
}

// Replaces the token of the previous key of the slot, or removes it for a key without a token.
void Device::setToken(const Key& key) {
  auto before = typeOfToken(key.slot);
  bool sealed = key.tokenType.size() > 0, wasSealed = false;
  for (auto type : kSealedTypes) wasSealed = wasSealed || type == before;
  if (!sealed && !wasSealed) return;
  auto doing = kj::str("store the sealed key of slot ", key.slot, " of");
  if (before == kFreshType) {
    int moved = crypt_token_json_set(cd, CRYPT_ANY_TOKEN, kFreshToken);
    if (moved < 0) failed(doing, moved);
  }
  auto token = tpm::tokenOf(key.tokenType, key.userData);
  int result =
      crypt_token_json_set(cd, static_cast<int>(key.slot), sealed ? token.cStr() : nullptr);
  if (result < 0) failed(doing, result);
}

bool Device::fresh() {
  const char* type;
  for (int i = 0, most = crypt_token_max(CRYPT_LUKS2); i < most; ++i) {
    auto status = crypt_token_status(volume(), i, &type);
    if (status >= CRYPT_TOKEN_INTERNAL && type == kFreshType) return true;
  }
  return false;
}

unsigned Device::keySize() {
  return 8 * static_cast<unsigned>(crypt_get_volume_key_size(volume()));
}

unsigned Device::sectorSize() {
  return static_cast<unsigned>(crypt_get_sector_size(volume()));
}

kj::String Device::cipher() {
  auto name = crypt_get_cipher(volume()), mode = crypt_get_cipher_mode(cd);
  return kj::str(name == nullptr ? "" : name, "-", mode == nullptr ? "" : mode);
}

kj::String Device::uuid() {
  auto id = crypt_get_uuid(volume());
  return kj::str(id == nullptr ? "" : id);
}

kj::Array<kj::byte> Device::header() {
  constexpr uint64_t kMost = 64u << 20;
  uint64_t metadata = 0, size = crypt_get_data_offset(volume()) * kSector;
  int result = crypt_get_metadata_size(cd, &metadata, nullptr);
  if (result < 0) failed("read the header of", result);
  metadata *= 2;  // there are two copies
  if (size > kMost || metadata > size) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(path, ": a header of ", size, " bytes is not kept"));
  }
  auto all = bytesOf(openDevice(path, O_RDONLY), size, path);
  KJ_REQUIRE(all.size() == size, "the device ends in its header", path);
  auto kept = kj::heapArray<kj::byte>(size);
  memset(kept.begin(), 0, size);
  memcpy(kept.begin(), all.begin(), metadata);
  for (auto slot : slots()) {
    uint64_t at = 0, length = 0;
    result = crypt_keyslot_area(cd, static_cast<int>(slot), &at, &length);
    if (result < 0) failed("read the keys of", result);
    KJ_REQUIRE(at <= size && length <= size - at, "a key is not in the header", path);
    memcpy(kept.begin() + at, all.begin() + at, length);
  }
  return kept;
}

bool Device::isHeaderOf(kj::StringPtr device, kj::ArrayPtr<const Key> keys) {
  constexpr size_t kBlock = 16;
  if (weakness() != nullptr) return false;
  auto begin = bytesOf(openDevice(device, O_RDONLY), kBlock, device,
                       crypt_get_data_offset(volume()) * kSector);
  auto volumeKey = kj::heapArray<kj::byte>(keySize() / 8);
  KJ_DEFER(zeroize(volumeKey));
  auto opensAt = [&](const Key& key, unsigned slot) {
    size_t size = volumeKey.size();
    int result = crypt_volume_key_get(cd, static_cast<int>(slot), volumeKey.asChars().begin(),
                                      &size, text(key.passphrase), key.passphrase.size());
    libraryMessages.clear();
    return result >= 0 && size == volumeKey.size();
  };
  auto used = slots();
  for (bool own : {true, false}) {
    for (auto& key : keys) {
      for (auto slot : used) {
        if ((slot == key.slot) != own || !opensAt(key, slot)) continue;
        return isXfsDecrypted(begin, volumeKey);
      }
    }
  }
  return false;
}

kj::Maybe<kj::String> Device::weakness() {
  constexpr unsigned kLeastKey = 256;
  auto ours = kj::str(kCipher, "-", kCipherMode);
  auto problem = [&](kj::StringPtr what, kj::StringPtr is, unsigned bits) {
    return kj::str("its header has ", what, " ", is, " with ", bits, " bits, not ", ours,
                   " with 256 or 512; somebody may have changed it");
  };
  auto used = cipher();
  if (used != ours || keySize() < kLeastKey) return problem("the cipher", used, keySize());
  for (auto slot : slots()) {
    size_t size = 0;
    auto name = crypt_keyslot_get_encryption(cd, static_cast<int>(slot), &size);
    kj::StringPtr is = name == nullptr ? "" : name;
    if (is != ours || 8 * size < kLeastKey) {
      return problem(kj::str("key slot ", slot, " with the cipher"), is,
                     static_cast<unsigned>(8 * size));
    }
  }
  return nullptr;
}

// Makes the header in the device that begin() opened.
void Device::makeHeader(kj::ArrayPtr<const Key> keys, const Format& how) {
  auto derivation = derivationOf(how.derivation);
  KJ_REQUIRE(crypt_set_data_offset(cd, kHeaderBytes / kSector) == 0);
  struct crypt_params_luks2 params = {};
  params.sector_size = how.sectorSize;
  params.label = how.label.cStr();
  params.pbkdf = &derivation;
  int result = crypt_format(cd, CRYPT_LUKS2, kCipher.cStr(), kCipherMode.cStr(), nullptr, nullptr,
                            how.keySize / 8, &params);
  if (result < 0) failed("make a header for", result);
  for (auto& key : keys) {
    result = crypt_keyslot_add_by_volume_key(cd, static_cast<int>(key.slot), nullptr, 0,
                                             text(key.passphrase), key.passphrase.size());
    if (result < 0) failed(kj::str("make key slot ", key.slot, " of"), result);
    setToken(key);
  }
  result = crypt_token_json_set(cd, CRYPT_ANY_TOKEN, kFreshToken);
  if (result < 0) failed("make a header for", result);
}

void Device::format(kj::ArrayPtr<const Key> keys, const Format& how) {
  bool again = what == Content::LUKS && slots().empty();
  if (what != Content::EMPTY && !again) {
    fail(ErrorKind::kFailedPrecondition, kj::str(path, " is not empty"));
  }
  KJ_REQUIRE(keys.size() > 0);
  Scratch scratch;
  begin(scratch.path);
  makeHeader(keys, how);
  auto header = bytesOf(scratch.fd, kHeaderBytes, scratch.path);
  auto fd = openDevice(path, O_RDWR);
  kj::byte mark[kSector] = {};
  memcpy(mark, kMark, sizeof(kMark) - 1);
  writeAt(fd, mark, 0, path);
  flush(fd, path);
  writeAt(fd, header.slice(kSector, header.size()), kSector, path);
  flush(fd, path);
  writeAt(fd, header.slice(0, kSector), 0, path);
  flush(fd, path);
  fd = nullptr;
  load();
  volume();
}

// Returns nullptr if the key is wrong.
kj::Maybe<unsigned> Device::unlock(const Key& key, int slot, const char* mapping, uint32_t flags) {
  int result = crypt_activate_by_passphrase(volume(), mapping, slot, text(key.passphrase),
                                            key.passphrase.size(), flags);
  if (result == -EPERM || result == -ENOENT) {
    libraryMessages.clear();
    return nullptr;
  }
  if (result < 0) failed("open", result);
  return static_cast<unsigned>(result);
}

void Device::requireNotMappedOtherwise(kj::StringPtr mapping, bool& active) {
  auto status = crypt_status(volume(), mapping.cStr());
  active = status == CRYPT_ACTIVE || status == CRYPT_BUSY;
  if (!active) return;
  crypt_device* other = nullptr;
  int result = crypt_init_by_name(&other, mapping.cStr());
  KJ_DEFER(if (other != nullptr) crypt_free(other));
  const char* below = result < 0 ? nullptr : crypt_get_device_name(other);
  if (below != nullptr && numberOf(below) != 0 && numberOf(below) == numberOf(path)) return;
  fail(ErrorKind::kFailedPrecondition, kj::str("cannot open ", path, ": the mapping ", mapping,
                                               " is that of ", below == nullptr ? "?" : below));
}

kj::Maybe<Opened> Device::open(kj::ArrayPtr<const Key> keys, kj::StringPtr mapping,
                               const Flags& flags) {
  KJ_IF_MAYBE (problem, weakness()) {
    fail(ErrorKind::kFailedPrecondition, kj::str(path, ": ", *problem));
  }
  bool active = false;
  if (mapping.size() > 0) requireNotMappedOtherwise(mapping, active);
  const char* name = mapping.size() == 0 || active ? nullptr : mapping.cStr();
  uint32_t bits = 0;
  if (name != nullptr) {
    if (flags.noReadWorkqueue) bits |= CRYPT_ACTIVATE_NO_READ_WORKQUEUE;
    if (flags.noWriteWorkqueue) bits |= CRYPT_ACTIVATE_NO_WRITE_WORKQUEUE;
    if (flags.sameCpu) bits |= CRYPT_ACTIVATE_SAME_CPU_CRYPT;
  }
  auto used = slots();
  auto tryAt = [&](bool own) -> kj::Maybe<Opened> {
    for (size_t i = 0; i < keys.size(); ++i) {
      for (auto slot : used) {
        if ((slot == keys[i].slot) != own) continue;
        KJ_IF_MAYBE (opened, unlock(keys[i], static_cast<int>(slot), name, bits)) {
          return Opened{*opened, i, fresh()};
        }
      }
    }
    return nullptr;
  };
  auto opened = tryAt(true);
  if (opened == nullptr) opened = tryAt(false);
  if (opened != nullptr && mapping.size() > 0 && fresh()) {
    auto node = kj::str("/dev/mapper/", mapping);
    auto fd = openDevice(node, O_RDWR);
    auto zeros = kj::heapArray<kj::byte>(kFreshBytes);
    memset(zeros.begin(), 0, zeros.size());
    writeAt(fd, zeros, 0, node);
    flush(fd, node);
  }
  return opened;
}

bool Device::fits(const Key& key) {
  return unlock(key, static_cast<int>(key.slot), nullptr, 0) != nullptr;
}

void Device::add(const Key& key, const Key& by, Derivation derivation) {
  if (crypt_keyslot_status(volume(), static_cast<int>(key.slot)) != CRYPT_SLOT_INACTIVE) {
    fail(ErrorKind::kFailedPrecondition, kj::str(path, ": key slot ", key.slot, " is not free"));
  }
  // A token without its key slot does nothing, a slot without its token has a key that is lost.
  setToken(key);
  auto type = derivationOf(derivation);
  int result = crypt_set_pbkdf_type(cd, &type);
  if (result < 0) failed("derive keys for", result);
  result = crypt_keyslot_add_by_passphrase(cd, static_cast<int>(key.slot), text(by.passphrase),
                                           by.passphrase.size(), text(key.passphrase),
                                           key.passphrase.size());
  if (result == -EPERM) {
    libraryMessages.clear();
    fail(ErrorKind::kFailedPrecondition,
         kj::str(path, ": the key of slot ", by.slot, " does not open it"));
  }
  if (result < 0) failed(kj::str("add key slot ", key.slot, " to"), result);
}

void Device::remove(unsigned slot, const Key& keeping) {
  if (slot == keeping.slot || !fits(keeping)) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(path, ": key slot ", slot, " is not removed, for no other key opens it"));
  }
  auto status = crypt_keyslot_status(cd, static_cast<int>(slot));
  if (status != CRYPT_SLOT_INACTIVE) {
    int result = crypt_keyslot_destroy(cd, static_cast<int>(slot));
    if (result < 0) failed(kj::str("remove key slot ", slot, " of"), result);
  }
  setToken({slot, nullptr});
}

void Device::settle() {
  const char* type;
  for (int i = 0, most = crypt_token_max(CRYPT_LUKS2); i < most; ++i) {
    auto status = crypt_token_status(volume(), i, &type);
    if (status < CRYPT_TOKEN_INTERNAL || type != kFreshType) continue;
    int result = crypt_token_json_set(cd, i, nullptr);
    if (result < 0) failed("change the header of", result);
  }
}

void close(kj::StringPtr mapping) {
  if (crypt_status(nullptr, mapping.cStr()) == CRYPT_INACTIVE) return;
  int result = crypt_deactivate(nullptr, mapping.cStr());
  if (result == 0 || result == -ENODEV) return;
  fail(result == -EBUSY ? ErrorKind::kUnavailable : ErrorKind::kFailedPrecondition,
       kj::str("cannot close ", mapping, ": ", strerror(-result)));
}

}  // namespace talos::luks
