// A key that a TPM has sealed, as the header of its volume keeps it: the UserData of a token, as
// JSON in Talos' form,
//   {"keyslots":[],"sealed_blob_private":"…","sealed_blob_public":"…","pcrs":[7],"pubkey_pcrs":[],
//    "alg":"sha256","encryption_version":"1","policy_hash":"…","key_name":"…","pcr_values":["…"]}
// with bytes in base64. pcr_values, the values of the registers at sealing, is our addition: with
// them a refusal names the registers that differ. Nothing in it is secret: only the TPM that sealed
// the key opens it.
//
// Anyone with access to the disk may have written the text: reading is bounded and fuzzed. Pure.
#pragma once

#include "machined/disk/tpm/pcr-policy.h"

namespace talos::tpm {

constexpr size_t kMostUserData = 8u << 10;

struct SealedKey {
  kj::Array<kj::byte> privatePart, publicPart;  // TPM2B_PRIVATE, TPM2B_PUBLIC, with their sizes
  kj::Array<Pcr> pcrs;                          // in ascending order
  kj::Array<kj::byte> keyName;                  // of the TPM's storage key that sealed it
};

kj::String userDataOf(const SealedKey& key);
// Throws FailedPrecondition with the problem.
SealedKey readUserData(kj::StringPtr text);

// The token of LUKS2 that has the UserData.
kj::String tokenOf(kj::StringPtr type, kj::StringPtr userData);
kj::Maybe<kj::String> userDataIn(kj::StringPtr token);

}  // namespace talos::tpm
