// Works on one partition or file that is empty or holds a LUKS2 volume, with libcryptsetup.
//
// Each function is one step. libcryptsetup writes a header in two copies, one after the other, each
// with a checksum, so that after a cut at any write the old or the new header is read. It makes no
// such promise for the first header, so this file does: format() makes the whole header, with all
// its keys, in memory. Then it writes a mark into the first sector, then the rest of the header,
// then the first sector, each flushed before the next. A device with the mark is a device whose
// formatting was cut, and is formatted again; it has never held data.
//
// A new volume is `fresh` until settle(): no file system has been made in it. open() writes zeros
// to the beginning of a fresh volume each time, so that the maker of the file system finds it
// empty, also after an interrupted attempt.
//
// A device is empty if its first emptyHeadOf() are zeros: any rest of a header or key slot may be
// the only way to a user's data. A device that begins with zeros and has such a rest is damaged; it
// is refused with a message (damage()), not formatted. For a small device, like STATE,
// emptyHeadOf() is the whole device: the rest may have been a file system, and a machine that had a
// config is not a new one. If the first copy of the header is gone, the second one is used.
//
// No other writes happen: a device that is neither empty nor marked is not formatted, and no key is
// removed unless another key was seen to open the volume. A header that has been weakened (no
// encryption, or other encryption than ours) is not opened, even if a key fits: its writer may have
// had no key at all.
//
// Calls block. Failures are kj::Exceptions that name the device, with libcryptsetup's messages.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/disk/empty-partition.h"
#include "common/disk/sealed-key-names.h"
#include "rpc/luks.capnp.h"

struct crypt_device;

namespace talos::luks {

constexpr unsigned kSlots = 32;
constexpr size_t kHeaderBytes = kEmptyHead;  // both copies, and the slots
constexpr kj::StringPtr kCipher = "aes"_kj, kCipherMode = "xts-plain64"_kj;

struct Key {
  unsigned slot;
  kj::ArrayPtr<const kj::byte> passphrase;
  // The token of a sealed key, whose number is the slot; empty for other keys.
  kj::StringPtr tokenType = nullptr, userData = nullptr;
};
constexpr kj::StringPtr kSealedTypes[] = {kTpmToken, kKmsToken};  // of such tokens
struct Token {
  kj::StringPtr type;
  kj::String userData;
};
using Derivation = rpc::LuksDerivation::Reader;

// EMPTY: nothing but zeros where a header would be, or a formatting or the making of an XFS that
// was cut. LUKS: LUKS2.
using Content = rpc::LuksAnswer::Content;

struct Format {
  unsigned keySize, sectorSize;
  kj::StringPtr label;
  Derivation derivation;
};

// Options of its mapping.
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
  kj::Maybe<kj::StringPtr> damage() const;  // of kOther: why it may still be a volume
  kj::StringPtr node() const { return path; }

  // --- of a LUKS2 volume; FailedPrecondition if it is not one
  kj::Vector<unsigned> slots();
  kj::Maybe<Token> token(unsigned slot);  // of the sealed key at this slot
  bool fresh();
  unsigned keySize();     // bits
  unsigned sectorSize();  // bytes
  kj::String cipher();
  kj::String uuid();
  // Returns all bytes before its data, with zeros where it has neither metadata nor a key.
  kj::Array<kj::byte> header();
  // Verifies that this header, which may be in a file, belongs to `device`: one of the keys opens
  // it, and then the data of `device` begins with an XFS.
  bool isHeaderOf(kj::StringPtr device, kj::ArrayPtr<const Key> keys);
  kj::Maybe<kj::String> weakness();

  // FailedPrecondition unless kEmpty, or a LUKS2 volume without keys. The content is kLuks
  // afterwards.
  void format(kj::ArrayPtr<const Key> keys, const Format& how);
  // Returns nullptr if no key fits. With a `mapping` it is mapped; the same partition may be mapped
  // there already.
  kj::Maybe<Opened> open(kj::ArrayPtr<const Key> keys, kj::StringPtr mapping, const Flags& flags);
  // Returns true if the key opens its own slot.
  bool fits(const Key& key);
  // FailedPrecondition if the slot is in use, or `by` does not fit.
  void add(const Key& key, const Key& by, Derivation derivation);
  void remove(unsigned slot, const Key& keeping);
  void settle();

 private:
  kj::String path;
  crypt_device* cd = nullptr;
  kj::Vector<kj::String> libraryMessages;  // by libcryptsetup, since the last failure
  Content what = Content::OTHER;
  bool zerosFirst = false;

  void begin(kj::StringPtr file);
  void load();
  void makeHeader(kj::ArrayPtr<const Key> keys, const Format& how);
  crypt_device* volume();
  kj::Maybe<unsigned> unlock(const Key& key, int slot, const char* mapping, uint32_t flags);
  kj::StringPtr typeOfToken(unsigned number);  // empty without such a token
  void setToken(const Key& key);
  void requireNotMappedOtherwise(kj::StringPtr mapping, bool& active);
  [[noreturn]] void failed(kj::StringPtr doing, int error);
};

// Closes any mapping; a missing one is fine. Unavailable while it is in use.
void close(kj::StringPtr mapping);

}  // namespace talos::luks
