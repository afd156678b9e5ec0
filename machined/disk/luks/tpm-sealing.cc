#include "machined/disk/luks/tpm-sealing.h"

#include <errno.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <string.h>
#include <tss2/tss2_esys.h>
#include <tss2/tss2_mu.h>
#include <tss2/tss2_tcti_device.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/memory/secret-array.h"

namespace talos::luks {
namespace {

using tpm::Digest;
using tpm::Pcr;
using tpm::SealedKey;

constexpr TPMT_SYM_DEF kSessionCipher = {
    .algorithm = TPM2_ALG_AES, .keyBits = {.aes = 128}, .mode = {.aes = TPM2_ALG_CFB}};
constexpr TPMA_SESSION kEncrypted =
    TPMA_SESSION_DECRYPT | TPMA_SESSION_ENCRYPT | TPMA_SESSION_CONTINUESESSION;

[[noreturn]] void refuseTpm(kj::StringPtr problem) {
  fail(ErrorKind::kFailedPrecondition, problem);
}

// Returns the number of the TPM's error without the parameter that it is about.
TSS2_RC numberOf(TSS2_RC code) {
  if ((code & TSS2_RC_LAYER_MASK) != 0) return code;
  return (code & TPM2_RC_FMT1) != 0 ? code & (TPM2_RC_FMT1 | 0x3f) : code;
}

kj::String meaningOf(TSS2_RC code) {
  switch (numberOf(code)) {
    case TPM2_RC_INTEGRITY:
      return kj::str("the sealed key was changed, or another TPM has sealed it");
    case TPM2_RC_POLICY_FAIL:
    case TPM2_RC_PCR_CHANGED:
      return kj::str("its registers changed meanwhile");
    case TPM2_RC_HIERARCHY:
      return kj::str("the firmware has turned its owner hierarchy off");
    case TPM2_RC_AUTH_FAIL:
    case TPM2_RC_BAD_AUTH:
      return kj::str("its owner hierarchy has a password; clear the TPM in the firmware");
    case TPM2_RC_LOCKOUT:
      return kj::str("it is locked after wrong passwords; wait, or clear it in the firmware");
    case TPM2_RC_INITIALIZE:
      return kj::str("the firmware has not started it");
    default:
      return kj::str("error 0x", kj::hex(code));
  }
}

void checkTpm(TSS2_RC code, kj::StringPtr doing) {
  if (code == TSS2_RC_SUCCESS) return;
  refuseTpm(kj::str("the TPM cannot ", doing, ": ", meaningOf(code)));
}

// A result of the library.
template <typename T>
struct Result {
  T* it = nullptr;
  Result() = default;
  ~Result() {
    if (it == nullptr) return;
    zeroize(kj::arrayPtr(reinterpret_cast<kj::byte*>(it), sizeof(T)));
    Esys_Free(it);
  }
  KJ_DISALLOW_COPY_AND_MOVE(Result);
};

// An object or a session in the TPM.
struct Loaded {
  ESYS_CONTEXT* esys;
  ESYS_TR handle = ESYS_TR_NONE;
  explicit Loaded(ESYS_CONTEXT* esys) : esys(esys) {}
  ~Loaded() {
    if (handle != ESYS_TR_NONE) Esys_FlushContext(esys, handle);
  }
  KJ_DISALLOW_COPY_AND_MOVE(Loaded);
};

TPML_PCR_SELECTION selectionOf(kj::ArrayPtr<const Pcr> pcrs) {
  TPML_PCR_SELECTION selection = {};
  selection.count = 1;
  auto& bank = selection.pcrSelections[0];
  bank.hash = TPM2_ALG_SHA256;
  bank.sizeofSelect = tpm::kPcrs / 8;
  for (auto& pcr : pcrs) {
    bank.pcrSelect[pcr.number / 8] |= static_cast<BYTE>(1u << (pcr.number % 8));
  }
  return selection;
}

// The storage root key of the TCG's TPM 2.0 Provisioning Guidance, of ECC P-256.
TPM2B_PUBLIC storageKey() {
  constexpr UINT16 kCoordinate = 32;
  TPM2B_PUBLIC key = {};
  auto& area = key.publicArea;
  area.type = TPM2_ALG_ECC;
  area.nameAlg = TPM2_ALG_SHA256;
  area.objectAttributes = TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT |
                          TPMA_OBJECT_SENSITIVEDATAORIGIN | TPMA_OBJECT_USERWITHAUTH |
                          TPMA_OBJECT_NODA | TPMA_OBJECT_RESTRICTED | TPMA_OBJECT_DECRYPT;
  auto& ecc = area.parameters.eccDetail;
  ecc.symmetric.algorithm = TPM2_ALG_AES;
  ecc.symmetric.keyBits.aes = 128;
  ecc.symmetric.mode.aes = TPM2_ALG_CFB;
  ecc.scheme.scheme = TPM2_ALG_NULL;
  ecc.curveID = TPM2_ECC_NIST_P256;
  ecc.kdf.scheme = TPM2_ALG_NULL;
  area.unique.ecc.x.size = area.unique.ecc.y.size = kCoordinate;
  return key;
}

TPM2B_PUBLIC sealedObject(const Digest& policy) {
  TPM2B_PUBLIC object = {};
  auto& area = object.publicArea;
  area.type = TPM2_ALG_KEYEDHASH;
  area.nameAlg = TPM2_ALG_SHA256;
  area.objectAttributes = TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT | TPMA_OBJECT_NODA;
  area.parameters.keyedHashDetail.scheme.scheme = TPM2_ALG_NULL;
  area.authPolicy.size = static_cast<UINT16>(policy.size());
  memcpy(area.authPolicy.buffer, policy.data(), policy.size());
  return object;
}

void deriveStorageKey(Loaded& storage) {
  auto wanted = storageKey();
  TPM2B_SENSITIVE_CREATE none = {};
  TPM2B_DATA outside = {};
  TPML_PCR_SELECTION creation = {};
  Result<TPM2B_PUBLIC> area;
  Result<TPM2B_CREATION_DATA> data;
  Result<TPM2B_DIGEST> hash;
  Result<TPMT_TK_CREATION> ticket;
  checkTpm(Esys_CreatePrimary(storage.esys, ESYS_TR_RH_OWNER, ESYS_TR_PASSWORD, ESYS_TR_NONE,
                              ESYS_TR_NONE, &none, &wanted, &outside, &creation, &storage.handle,
                              &area.it, &data.it, &hash.it, &ticket.it),
           "derive its storage key");
}

kj::Array<kj::byte> storageNameOf(const Loaded& object) {
  Result<TPM2B_NAME> name;
  checkTpm(Esys_TR_GetName(object.esys, object.handle, &name.it), "name its storage key");
  return kj::heapArray<kj::byte>(name.it->name, name.it->size);
}

// `kind`: HMAC, or a policy, which is fulfilled in it.
void startSession(Loaded& session, const Loaded& salt, TPM2_SE kind) {
  checkTpm(Esys_StartAuthSession(session.esys, salt.handle, ESYS_TR_NONE, ESYS_TR_NONE,
                                 ESYS_TR_NONE, ESYS_TR_NONE, nullptr, kind, &kSessionCipher,
                                 TPM2_ALG_SHA256, &session.handle),
           "start a session");
  if (kind != TPM2_SE_HMAC) return;
  checkTpm(Esys_TRSess_SetAttributes(session.esys, session.handle, kEncrypted, 0xff),
           "start a session");
}

template <typename T, typename Marshal>
kj::Array<kj::byte> marshalled(const T& value, Marshal marshal) {
  kj::byte buffer[sizeof(T) + 16];
  size_t size = 0;
  checkTpm(marshal(&value, buffer, sizeof(buffer), &size), "give the sealed key as bytes");
  return kj::heapArray<kj::byte>(buffer, size);
}

template <typename T, typename Unmarshal>
T unmarshalled(kj::ArrayPtr<const kj::byte> bytes, Unmarshal unmarshal) {
  T value = {};
  size_t at = 0;
  if (unmarshal(bytes.begin(), bytes.size(), &at, &value) != TSS2_RC_SUCCESS ||
      at != bytes.size()) {
    refuseTpm("what the header has of the sealed key is not an object of a TPM");
  }
  return value;
}

void requireBank(ESYS_CONTEXT* esys) {
  Result<TPMS_CAPABILITY_DATA> found;
  TPMI_YES_NO more;
  checkTpm(Esys_GetCapability(esys, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, TPM2_CAP_PCRS, 0, 1,
                              &more, &found.it),
           "list its registers");
  auto& banks = found.it->data.assignedPCR;
  for (UINT32 i = 0; i < banks.count; ++i) {
    auto& bank = banks.pcrSelections[i];
    if (bank.hash != TPM2_ALG_SHA256 || bank.sizeofSelect < tpm::kPcrs / 8) continue;
    bool whole = true;
    for (unsigned j = 0; j < tpm::kPcrs / 8; ++j) whole = whole && bank.pcrSelect[j] == 0xff;
    if (whole) return;
  }
  refuseTpm("the TPM has no registers of SHA-256; turn this bank on in the firmware");
}

Pcr readPcr(ESYS_CONTEXT* esys, unsigned number) {
  Pcr pcr{number, {}};
  auto wanted = selectionOf(kj::arrayPtr(&pcr, 1));
  UINT32 counter;
  Result<TPML_PCR_SELECTION> selected;
  Result<TPML_DIGEST> values;
  checkTpm(Esys_PCR_Read(esys, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &wanted, &counter,
                         &selected.it, &values.it),
           kj::str("read ", tpm::nameOfPcr(number)));
  if (values.it->count != 1 || values.it->digests[0].size != pcr.value.size()) {
    refuseTpm(kj::str("the TPM has no ", tpm::nameOfPcr(number), " of SHA-256"));
  }
  memcpy(pcr.value.data(), values.it->digests[0].buffer, pcr.value.size());
  return pcr;
}

// Returns the secret; the session encrypts it on its way.
kj::Array<kj::byte> openSealed(const SealedKey& key, const Loaded& storage, const Loaded& session) {
  auto esys = storage.esys;
  auto privatePart = unmarshalled<TPM2B_PRIVATE>(key.privatePart, Tss2_MU_TPM2B_PRIVATE_Unmarshal);
  auto publicPart = unmarshalled<TPM2B_PUBLIC>(key.publicPart, Tss2_MU_TPM2B_PUBLIC_Unmarshal);
  Loaded object(esys), policy(esys);
  checkTpm(Esys_Load(esys, storage.handle, session.handle, ESYS_TR_NONE, ESYS_TR_NONE, &privatePart,
                     &publicPart, &object.handle),
           "load the sealed key");
  startSession(policy, storage, TPM2_SE_POLICY);
  if (key.pcrs.size() > 0) {
    auto digest = tpm::digestOf(key.pcrs);
    TPM2B_DIGEST demanded = {};
    demanded.size = static_cast<UINT16>(digest.size());
    memcpy(demanded.buffer, digest.data(), digest.size());
    auto selection = selectionOf(key.pcrs);
    checkTpm(Esys_PolicyPCR(esys, policy.handle, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE,
                            &demanded, &selection),
             "compare its registers");
  }
  Result<TPM2B_SENSITIVE_DATA> secret;
  checkTpm(
      Esys_Unseal(esys, object.handle, policy.handle, session.handle, ESYS_TR_NONE, &secret.it),
      "unseal the key");
  return secretArray(kj::arrayPtr<const kj::byte>(secret.it->buffer, secret.it->size));
}

kj::Array<kj::byte> transportTo(kj::StringPtr device) {
  constexpr auto kBefore2 = "/dev/tpm0"_kj;
  if (access(device.cStr(), F_OK) != 0) {
    bool old = device == kTpmDevice && access(kBefore2.cStr(), F_OK) == 0;
    refuseTpm(
        old ? kj::str("the TPM of this machine is not a TPM 2.0")
            : kj::str("this machine has no TPM 2.0 (no ", device, "); turn it on in the firmware"));
  }
  setenv("TSS2_LOG", "all+none", 0);  // our messages have the errors
  size_t size = 0;
  checkTpm(Tss2_Tcti_Device_Init(nullptr, &size, nullptr), "be opened");
  auto bytes = kj::heapArray<kj::byte>(size);
  memset(bytes.begin(), 0, size);
  auto context = reinterpret_cast<TSS2_TCTI_CONTEXT*>(bytes.begin());
  checkTpm(Tss2_Tcti_Device_Init(context, &size, device.cStr()), kj::str("be opened at ", device));
  return bytes;
}

}  // namespace

// The kernel's EFI stub sets this byte of its boot parameters to 3 (enum efi_secureboot_mode).
void requireSecureBoot(kj::StringPtr bootParameters) {
  constexpr size_t kAt = 0x1ec;
  constexpr char kEnabled = 3;
  KJ_IF_MAYBE (data, tryReadFile(bootParameters)) {
    if (data->size() > kAt && (*data)[kAt] == kEnabled) return;
  } else {
    refuseTpm(
        "the kernel does not say whether Secure Boot is on, and the config seals this key only "
        "while it is on");
  }
  refuseTpm("Secure Boot is off, and the config seals this key only while it is on");
}

Tpm::Tpm(kj::StringPtr device) : Tpm(transportTo(device)) {}

Tpm::Tpm(kj::Array<kj::byte> given) : transport(kj::mv(given)) {
  auto context = reinterpret_cast<TSS2_TCTI_CONTEXT*>(transport.begin());
  auto code = Esys_Initialize(&esys, context, nullptr);
  if (code == TSS2_RC_SUCCESS) return;
  Tss2_Tcti_Finalize(context);
  checkTpm(code, "be used");
}

Tpm::~Tpm() noexcept(false) {
  Esys_Finalize(&esys);
  Tss2_Tcti_Finalize(reinterpret_cast<TSS2_TCTI_CONTEXT*>(transport.begin()));
}

kj::String Tpm::seal(kj::ArrayPtr<const kj::byte> secret, kj::ArrayPtr<const unsigned> pcrs) {
  TPM2B_SENSITIVE_CREATE content = {};
  KJ_DEFER(zeroize(kj::arrayPtr(reinterpret_cast<kj::byte*>(&content), sizeof(content))));
  auto& data = content.sensitive.data;
  KJ_REQUIRE(secret.size() > 0 && secret.size() <= sizeof(data.buffer));
  data.size = static_cast<UINT16>(secret.size());
  memcpy(data.buffer, secret.begin(), secret.size());
  requireBank(esys);
  SealedKey key;
  key.pcrs = KJ_MAP(number, tpm::inOrder(pcrs)) {
    auto pcr = readPcr(esys, number);
    if (tpm::isUnused(pcr.value)) {
      refuseTpm(kj::str("nothing was measured into ", tpm::nameOfPcr(number),
                        " of the TPM, so no key is sealed to it; choose other pcrs"));
    }
    return pcr;
  };
  Loaded storage(esys), session(esys);
  deriveStorageKey(storage);
  key.keyName = storageNameOf(storage);
  startSession(session, storage, TPM2_SE_HMAC);
  auto wanted = sealedObject(tpm::policyOf(key.pcrs));
  TPM2B_DATA outside = {};
  TPML_PCR_SELECTION creation = {};
  Result<TPM2B_PRIVATE> privatePart;
  Result<TPM2B_PUBLIC> publicPart;
  Result<TPM2B_CREATION_DATA> created;
  Result<TPM2B_DIGEST> hash;
  Result<TPMT_TK_CREATION> ticket;
  checkTpm(Esys_Create(esys, storage.handle, session.handle, ESYS_TR_NONE, ESYS_TR_NONE, &content,
                       &wanted, &outside, &creation, &privatePart.it, &publicPart.it, &created.it,
                       &hash.it, &ticket.it),
           "seal a key");
  key.privatePart = marshalled(*privatePart.it, Tss2_MU_TPM2B_PRIVATE_Marshal);
  key.publicPart = marshalled(*publicPart.it, Tss2_MU_TPM2B_PUBLIC_Marshal);
  if (openSealed(key, storage, session) != secret) {
    refuseTpm("the TPM gives another key back than it has sealed");
  }
  return tpm::userDataOf(key);
}

kj::Array<kj::byte> Tpm::unseal(kj::StringPtr userData) {
  auto key = tpm::readUserData(userData);
  Loaded storage(esys), session(esys);
  deriveStorageKey(storage);
  if (storageNameOf(storage) != key.keyName) {
    refuseTpm("the TPM of another machine has sealed the key, or this TPM was cleared since");
  }
  startSession(session, storage, TPM2_SE_HMAC);
  auto now = KJ_MAP(pcr, key.pcrs) {
    return readPcr(esys, pcr.number);
  };
  auto different = tpm::differences(key.pcrs, now);
  if (different.size() > 0) {
    refuseTpm(kj::str("the machine has started in another way than when the TPM sealed the key: ",
                      different, " differs"));
  }
  return openSealed(key, storage, session);
}

}  // namespace talos::luks
