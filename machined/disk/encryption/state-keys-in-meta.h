// The keys of STATE that a boot has before it has the config, which is on STATE. They are in META,
// as JSON in Talos' form, so that either system opens a volume that the other has made:
//   {"EncryptionProvider":"luks2","EncryptionKeys":[{"KeyStatic":null,"KeyNodeID":{},"KeySlot":0}],
//    "EncryptionCipher":"aes-xts-plain64"}
// A key that the TPM has sealed is
//   {"KeyStatic":null,"KeyNodeID":null,"KeyTPM":{"TPMOptions":{"PCRs":[7]},
//    "TPMCheckSecurebootStatusOnEnroll":false},"KeySlot":0}
// and one that a key server has sealed
//   {"KeyStatic":null,"KeyNodeID":null,"KeyKMS":{"KMSEndpoint":"https://kms.example.org"},"KeySlot":0}
//
// META is not encrypted. It holds a static key only if the config says so, or has no other key that
// opens STATE (isReadableInMeta()). Other static keys are left out, and so are recovery keys: a
// boot does not need them.
//
// Anyone with access to the disk may have written the text: reading is bounded and fuzzed, and
// yields no more than a list of keys to try.
#pragma once

#include <kj/async.h>

#include "machined/disk/encryption/encryption-settings.h"

namespace talos::machined {

constexpr size_t kMostStateKeys = 64u << 10;

// Returns the text, which may be a secret, in an array that is zeroed when it is freed.
kj::Array<kj::byte> stateKeysText(config::Encryption::Reader encryption);
// Leaves out a key that this machine cannot make. Throws InvalidArgument, without quoting the text.
VolumeSettings readStateKeys(kj::ArrayPtr<const kj::byte> text, kj::StringPtr uuid);

// Returns true if STATE could not be opened without the keys in META, since no key is the machine's
// own.
bool needsStateKeys(config::Encryption::Reader encryption);

// Store of the list in META. Tests have a model.
class StateKeys {
 public:
  virtual ~StateKeys() noexcept(false) = default;
  virtual kj::Promise<kj::Maybe<kj::Array<kj::byte>>> read() = 0;
  // Once it resolves, the new text is on the disk; until then, the old text is. A text that is
  // already stored is not written again.
  virtual kj::Promise<void> store(kj::Array<kj::byte> text) = 0;
  virtual kj::Promise<void> remove() = 0;  // absent is fine
};

}  // namespace talos::machined
