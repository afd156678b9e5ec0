// The keys of STATE that a boot has before it has the config, which is on STATE: they are in META,
// as JSON in the original's form, so that either system opens a volume that the other has made:
//   {"EncryptionProvider":"luks2","EncryptionKeys":[{"KeyStatic":null,"KeyNodeID":{},"KeySlot":0}],
//    "EncryptionCipher":"aes-xts-plain64"}
// META is not encrypted. A static key is there only if the config says so, or has nothing else that
// opens STATE (isReadableInMeta()); otherwise it is left out, as recovery keys are: a boot does
// without.
//
// The text may be anybody's who has written to the disk: reading is bounded, fuzzed, and gives no
// more than a list of keys to try.
#pragma once

#include <kj/async.h>

#include "machined/disk/encryption/encryption-settings.h"

namespace talos::machined {

constexpr size_t kMostStateKeys = 64u << 10;

// May be a secret: who has it zeroes it.
kj::Array<kj::byte> stateKeysText(config::Encryption::Reader encryption);
// Without a key that this machine cannot make. Throws InvalidArgument, without quoting the text.
VolumeSettings readStateKeys(kj::ArrayPtr<const kj::byte> text, kj::StringPtr uuid);

// True if STATE could not be opened without the keys in META: no key is the machine's own.
bool needsStateKeys(config::Encryption::Reader encryption);

// Where they are kept. Tests have a model.
class StateKeys {
 public:
  virtual ~StateKeys() noexcept(false) = default;
  virtual kj::Promise<kj::Maybe<kj::Array<kj::byte>>> read() = 0;
  // On the disk when it resolves, or what was there before is. Nothing is written when it is there.
  virtual kj::Promise<void> store(kj::Array<kj::byte> text) = 0;
  virtual kj::Promise<void> remove() = 0;  // absent is fine
};

}  // namespace talos::machined
