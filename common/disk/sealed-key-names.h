// The names of the things that seal keys of encrypted volumes: the TPM 2.0 of the machine, and the
// types of the tokens in which the headers of volumes keep sealed keys. The types are those of
// Talos, whose volumes have the same tokens.
#pragma once

#include <kj/string.h>

namespace talos {

// The kernel's resource manager: it removes from the TPM what a process leaves there.
constexpr kj::StringPtr kTpmDevice = "/dev/tpmrm0"_kj;
constexpr unsigned kPcrs = 24;  // registers of a bank of a TPM

// Types of tokens: keys that the TPM has sealed, and keys that a server has sealed.
constexpr kj::StringPtr kTpmToken = "talos-tpm2"_kj, kKmsToken = "sideroKMS"_kj;

}  // namespace talos
