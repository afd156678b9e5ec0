// Passphrases of sealed keys: the TPM seals a random key when a slot is made, and unseals it when a
// boot opens the volume. The sealed key is in the volume's header, as the token of its slot
// (machined/disk/tpm/sealed-key.h); the passphrase is the base64 of the key's 32 bytes.
//
// A key that cannot be unsealed is left out, with the reason, and the next key is tried. Its slot
// stays as it is: the machine may be put back into the state in which its TPM unseals the key.
#pragma once

#include "machined/disk/encryption/luks-client.h"

namespace talos::machined {

struct UnsealedKeys {
  VolumeSettings settings;          // keys with a passphrase
  kj::Vector<kj::String> problems;  // "tpm of slot 0: …", of each key that the TPM did not unseal
};

// Before a volume is opened. `found` has the tokens of its header.
kj::Promise<UnsealedKeys> unsealKeys(Luks& luks, const Luks::Found& found,
                                     const VolumeSettings& settings);

// Before keys are put into slots. A sealed key keeps its passphrase if its slot has its token,
// sealed to the same registers; otherwise the TPM seals a new key. If the key was in
// `before`, a failure leaves its slot as it is, as described above; otherwise it throws.
kj::Promise<UnsealedKeys> sealKeys(Luks& luks, const Luks::Found& found,
                                   kj::ArrayPtr<const VolumeKey> before,
                                   const VolumeSettings& wanted);

}  // namespace talos::machined
