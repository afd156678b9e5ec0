// Seals a key with the machine's TPM 2.0, and gets it back, over tpm2-tss. Nothing stays in the
// TPM: its storage key is derived from the owner's seed each time (the ECC template of the TCG),
// and the sealed key is in the header of its volume.
//
// Between this program and the TPM the key is encrypted with AES-128, in a session whose salt only
// that storage key can read; at unsealing the name of the storage key is compared first, so that a
// device between the two cannot pretend to be the TPM. The object may not leave the TPM (fixedTPM,
// fixedParent), and wrong values of registers do not lock the TPM (noDA).
//
// Calls block as long as the TPM works: the process that started this program ends it. Failures are
// kj::Exceptions of the kind FailedPrecondition that say what to do.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <tss2/tss2_tcti.h>

#include "common/disk/sealed-key-names.h"
#include "machined/disk/tpm/sealed-key.h"

struct ESYS_CONTEXT;

namespace talos::luks {

// Throws unless the machine has started with Secure Boot on, and not in setup mode.
void requireSecureBoot(kj::StringPtr bootParameters = "/sys/kernel/boot_params/data"_kj);

class Tpm {
 public:
  explicit Tpm(kj::StringPtr device = kTpmDevice);
  explicit Tpm(kj::Array<kj::byte> transport);  // an initialized TSS2_TCTI_CONTEXT
  ~Tpm() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Tpm);

  // Returns the UserData of a token (sealed-key.h). The key was unsealed once for a test.
  kj::String seal(kj::ArrayPtr<const kj::byte> secret, kj::ArrayPtr<const unsigned> pcrs);
  // The result is zeroed when it is freed.
  kj::Array<kj::byte> unseal(kj::StringPtr userData);

 private:
  kj::Array<kj::byte> transport;
  ESYS_CONTEXT* esys = nullptr;
};

}  // namespace talos::luks
