#include "machined/disk/tpm/pcr-policy.h"

#include <kj/debug.h>
#include <kj/vector.h>
#include <string.h>

#include <algorithm>

namespace talos::tpm {
namespace {

// TPM 2.0 Library, part 2: TPM_CC_PolicyPCR, TPM_ALG_SHA256.
constexpr kj::byte kPolicyPcr[] = {0, 0, 1, 0x7f};
constexpr kj::byte kOneBank[] = {0, 0, 0, 1, 0, 0x0b, kPcrs / 8};

Digest finish(Sha256& sum) {
  Digest digest;
  auto bytes = sum.finish();
  memcpy(digest.data(), bytes.begin(), digest.size());
  return digest;
}

kj::ArrayPtr<const kj::byte> bytesOf(const Digest& digest) {
  return kj::arrayPtr(digest.data(), digest.size());
}

// By the TCG's PC Client Platform Firmware Profile, 3.3.4.
kj::StringPtr meaningOf(unsigned number) {
  switch (number) {
    case 0:
      return "firmware"_kj;
    case 1:
      return "settings of the firmware"_kj;
    case 2:
      return "firmware of cards"_kj;
    case 3:
      return "settings of cards"_kj;
    case 4:
      return "boot loader"_kj;
    case 5:
      return "partition table"_kj;
    case 7:
      return "Secure Boot"_kj;
    default:
      return nullptr;
  }
}

}  // namespace

Digest digestOf(kj::ArrayPtr<const Pcr> pcrs) {
  Sha256 sum;
  for (auto& pcr : pcrs) sum.add(bytesOf(pcr.value));
  return finish(sum);
}

Digest policyOf(kj::ArrayPtr<const Pcr> pcrs) {
  Digest policy = {};
  if (pcrs.size() == 0) return policy;
  kj::byte selected[kPcrs / 8] = {};
  for (auto& pcr : pcrs) {
    KJ_REQUIRE(pcr.number < kPcrs);
    selected[pcr.number / 8] |= static_cast<kj::byte>(1u << (pcr.number % 8));
  }
  Sha256 sum;
  sum.add(bytesOf(policy));
  sum.add(kPolicyPcr);
  sum.add(kOneBank);
  sum.add(selected);
  auto digest = digestOf(pcrs);
  sum.add(bytesOf(digest));
  return finish(sum);
}

bool isUnused(const Digest& value) {
  bool zeros = true, ones = true;
  for (auto b : value) {
    zeros = zeros && b == 0;
    ones = ones && b == 0xff;
  }
  return zeros || ones;
}

kj::Array<unsigned> inOrder(kj::ArrayPtr<const unsigned> numbers) {
  auto sorted = kj::heapArray<unsigned>(numbers);
  std::sort(sorted.begin(), sorted.end());
  auto end = std::unique(sorted.begin(), sorted.end());
  return kj::heapArray<unsigned>(sorted.slice(0, static_cast<size_t>(end - sorted.begin())));
}

kj::String nameOfPcr(unsigned number) {
  auto meaning = meaningOf(number);
  if (meaning.size() == 0) return kj::str("PCR ", number);
  return kj::str("PCR ", number, " (", meaning, ")");
}

kj::String differences(kj::ArrayPtr<const Pcr> sealed, kj::ArrayPtr<const Pcr> now) {
  KJ_REQUIRE(sealed.size() == now.size());
  kj::Vector<kj::String> names;
  for (auto i : kj::indices(sealed)) {
    KJ_REQUIRE(sealed[i].number == now[i].number);
    if (sealed[i].value != now[i].value) names.add(nameOfPcr(sealed[i].number));
  }
  return kj::strArray(names, ", ");
}

}  // namespace talos::tpm
