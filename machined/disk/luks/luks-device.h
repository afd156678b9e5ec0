// Works on one partition, or file, with a LUKS2 volume or nothing on it, by libcryptsetup.
//
// Each function is one step. A header is written by libcryptsetup in two copies, one after the
// other, each with a checksum, so that after a cut at any write the old one or the new one is read.
// libcryptsetup makes no such promise for the first header, so this file does: format() first makes
// the whole header, with all its keys, in memory; then it writes a mark into the first sector, then
// the header but for that sector, then that sector, each flushed before the next. A device with the
// mark is one whose formatting was cut, and is formatted again; nobody has ever had data on it.
//
// A new volume is `fresh` until settle(): no file system has been made in it. open() writes zeros
// to the beginning of a fresh one each time, so whoever makes the file system finds it empty, also
// after a cut in its middle.
//
// A device is empty when its first emptyHeadOf() are zeros: as long as anything is left of a header
// or of a key slot, it may be the only way to somebody's data. One that begins with zeros and has
// such a rest is damaged; it is refused with a message (damage()), not formatted. Of a small
// device, as STATE is one, that is all of it: it may as well have been a file system, and the
// machine whose config it had is no new one. The header's second copy is used when the first one is
// gone.
//
// Nothing else is written: no device that is neither empty nor marked is formatted, no key is
// removed unless another one was seen to open the volume. A header that has been made weak (no
// encryption, or another one than ours) is not opened, whatever key fits: the one who wrote it may
// have had no key at all.
//
// Calls block. Failures are kj::Exceptions that name the device, with libcryptsetup's messages.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/disk/empty-partition.h"
#include "rpc/luks.capnp.h"

struct crypt_device;

namespace talos::luks {

constexpr unsigned kSlots = 32;
constexpr size_t kHeaderBytes = kEmptyHead;  // both copies, and the slots
constexpr kj::StringPtr kCipher = "aes"_kj, kCipherMode = "xts-plain64"_kj;

struct Key {
  unsigned slot;
  kj::ArrayPtr<const kj::byte> passphrase;
};
using Derivation = rpc::LuksDerivation::Reader;

enum class Content {
  kEmpty,  // nothing but zeros where a header would be, or a formatting or the making of an XFS
           // that was cut
  kLuks,   // LUKS2
  kOther,
};

struct Format {
  unsigned keySize, sectorSize;
  kj::StringPtr label;
  Derivation derivation;
};

// How it is mapped.
struct Flags {
  bool noReadWorkqueue = false, noWriteWorkqueue = false, sameCpu = false;
};

struct Opened {
  unsigned slot;
  size_t key;  // index
  bool fresh;
};

class Device {
 public:
  explicit Device(kj::StringPtr path);
  ~Device() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Device);

  Content content() const { return what; }
  kj::Maybe<kj::StringPtr> damage() const;  // of kOther: why it may be a volume all the same
  kj::StringPtr node() const { return path; }

  // --- of a LUKS2 volume; FailedPrecondition when it is none
  kj::Vector<unsigned> slots();
  bool fresh();
  unsigned keySize();     // bits
  unsigned sectorSize();  // bytes
  kj::String cipher();
  kj::String uuid();
  // All before its data, with zeros where it has neither metadata nor a key.
  kj::Array<kj::byte> header();
  // Of this header, which may be in a file: that one of the keys opens it, and that the data of
  // `device` begins with an XFS then.
  bool isHeaderOf(kj::StringPtr device, kj::ArrayPtr<const Key> keys);
  kj::Maybe<kj::String> weakness();

  // FailedPrecondition unless kEmpty, or a LUKS2 volume without any key. Content is kLuks then.
  void format(kj::ArrayPtr<const Key> keys, const Format& how);
  // None: no key fits. With a name it is mapped; the same partition may be mapped there already.
  kj::Maybe<Opened> open(kj::ArrayPtr<const Key> keys, kj::StringPtr mapping, const Flags& flags);
  // True if it opens its own slot.
  bool fits(const Key& key);
  // FailedPrecondition when the slot is in use, or `by` does not fit.
  void add(const Key& key, const Key& by, Derivation derivation);
  void remove(unsigned slot, const Key& keeping);
  void settle();

 private:
  kj::String path;
  crypt_device* cd = nullptr;
  kj::Vector<kj::String> libraryMessages;  // of libcryptsetup, since the last failure
  Content what = Content::kOther;
  bool zerosFirst = false;

  void begin(kj::StringPtr file);
  void load();
  void makeHeader(kj::ArrayPtr<const Key> keys, const Format& how);
  crypt_device* volume();
  kj::Maybe<unsigned> unlock(const Key& key, int slot, const char* mapping, uint32_t flags);
  void requireNotMappedOtherwise(kj::StringPtr mapping, bool& active);
  [[noreturn]] void failed(kj::StringPtr doing, int error);
};

// Of any mapping; one that is not there is fine. Unavailable while it is in use.
void close(kj::StringPtr mapping);

}  // namespace talos::luks
