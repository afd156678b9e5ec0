// The state of a machine that a sealed key is bound to: values of registers of its TPM 2.0 (PCRs),
// in the bank of SHA-256, and the policy that demands these values. Pure.
//
// The policy is one TPM2_PolicyPCR, of the values at sealing. Without registers it is the empty
// policy, which every session of the same TPM fulfils. A signed policy (TPM2_PolicyAuthorize) would
// let the signer of an image name other values later; this system has no signed images.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

#include <array>

#include "common/base/sha256.h"
#include "common/disk/sealed-key-names.h"

namespace talos::tpm {

using talos::kPcrs;
using Digest = std::array<kj::byte, Sha256::kBytes>;

struct Pcr {
  unsigned number;
  Digest value;
};

// Returns the digest of the values, as TPM2_PolicyPCR takes it. The registers are in ascending
// order, without duplicates.
Digest digestOf(kj::ArrayPtr<const Pcr> pcrs);
// Returns the authorization policy of an object that demands these values.
Digest policyOf(kj::ArrayPtr<const Pcr> pcrs);

// Returns true if nothing was measured into the register since the machine was turned on (all
// zeros), or no program of the system can (all ones): its value would say nothing about the
// machine.
bool isUnused(const Digest& value);

// Returns the numbers in ascending order, each once.
kj::Array<unsigned> inOrder(kj::ArrayPtr<const unsigned> numbers);

// Returns "PCR 7 (Secure Boot)".
kj::String nameOfPcr(unsigned number);
// Returns the names of the registers that differ, separated by commas; empty if none does. Both
// lists are of the same registers.
kj::String differences(kj::ArrayPtr<const Pcr> sealed, kj::ArrayPtr<const Pcr> now);

}  // namespace talos::tpm
