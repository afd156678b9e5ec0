// Passphrases of sealed keys: the TPM or a key server seals a random key when a slot is made, and
// unseals it when a boot opens the volume. The sealed key is in the volume's header, as the token
// of its slot (machined/disk/tpm/sealed-key.h, kms-client.h); the passphrase is the base64 of the
// key's 32 bytes.
//
// A key that cannot be unsealed is left out, with the reason, and the next key is tried. Its slot
// stays as it is: the machine may be put back into the state in which its TPM unseals the key, or
// the server may answer again. A server may also answer with another key than it has sealed; such a
// key opens nothing, and its slot stays, too.
#pragma once

#include "machined/disk/encryption/luks-client.h"

namespace talos::machined {

struct UnsealedKeys {
  VolumeSettings settings;          // keys with a passphrase
  kj::Vector<kj::String> problems;  // "tpm of slot 0: …", of each key that was not unsealed
  kj::Vector<unsigned> locked;      // by sealKeys(): slots of these keys, which stay as they are
};

// Before a volume is opened. `found` has the tokens of its header.
kj::Promise<UnsealedKeys> unsealKeys(Luks& luks, const Luks::Found& found,
                                     const VolumeSettings& settings);

// The keys of a volume whose keys change, as far as they are known.
struct KeysInForce {
  kj::StringPtr device;
  kj::ArrayPtr<const VolumeKey> list;  // in force, as a config has them
  const UnsealedKeys& unsealed;        // made of that list
  Luks::Opened opened;                 // by one of unsealed.settings.keys
};

// Before keys are put into slots. A sealed key keeps its passphrase if its slot has its token,
// sealed to the same registers, or a token that its server unseals to the key of the slot;
// otherwise a new key is sealed. A key that was in force and cannot be unsealed leaves its slot as
// it is, as described above; a failure with another one throws. Without keys in force, the volume
// is about to be formatted.
kj::Promise<UnsealedKeys> sealKeys(Luks& luks, const Luks::Found& found,
                                   kj::Maybe<const KeysInForce&> before,
                                   const VolumeSettings& wanted);

}  // namespace talos::machined
