// Installer images beside their archive: signatures, digests, versions.
//
// link: machined-confined-parser machined-disk-installer machined-upgrade
#include <kj/debug.h>
#include <string.h>

#include "machined/confined/parser-client/parser-messages.h"
#include "machined/confined/parser/image-signature.h"
#include "machined/disk/installer/digest-list.h"
#include "machined/disk/installer/kernel-image.h"
#include "machined/upgrade/version-floor.h"
#include "tests/fuzz/fuzz-target.h"

// The signatures of an image in a registry: any bytes, as the manifest and as a payload.
FUZZ_TARGET(signature) {
  using namespace talos;
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  kj::Vector<machined::ImageSignature> found;
  kj::Maybe<kj::String> about;
  (void)kj::runCatchingExceptions([&]() { found = parse::findSignatures(text); });
  (void)kj::runCatchingExceptions([&]() { about = parse::signedImage(text); });
  KJ_ASSERT(found.size() <= machined::kMostImageSignatures);
  for (auto& signature : found) {
    KJ_ASSERT(machined::isSha256(signature.payload));
    KJ_ASSERT(signature.signature.size() > 0 &&
              signature.signature.size() <= machined::kMostImageSignature);
  }
  KJ_IF_MAYBE (digest, about) {
    KJ_ASSERT(machined::isSha256(*digest));
  }
  return 0;
}

// The parts of an installer image that a node reads: the list of digests, the version, the head of
// the kernel.
FUZZ_TARGET(digests) {
  using namespace talos::install;
  auto text =
      kj::heapArray<char>(reinterpret_cast<const char*>(data), size);  // a sanitizer sees its end
  (void)kj::runCatchingExceptions([&] { DigestList(text).check("vmlinuz", ""); });
  (void)kj::runCatchingExceptions([&] { KJ_ASSERT(imageVersion(text).size() <= 64); });
  for (auto arch : {"amd64", "arm64"}) {
    (void)kj::runCatchingExceptions([&] { checkKernel(text.asBytes(), size, arch); });
  }
  return 0;
}

using namespace talos::machined;

// The versions in two images, one of which may be the floor: they have an order, whatever they are.
FUZZ_TARGET(versions) {
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  for (char& c : text) {
    if (c == '\0') c = '?';
  }
  auto split = strcspn(text.cStr(), "\n");
  auto left = kj::heapString(text.slice(0, split));
  auto right = kj::heapString(text.slice(kj::min(split + 1, size)));
  auto older = isOlder(left, right), newer = isOlder(right, left);
  KJ_ASSERT((older == nullptr) == (newer == nullptr));
  KJ_ASSERT(!(older.orDefault(false) && newer.orDefault(false)));
  KJ_ASSERT(!isOlder(left, left).orDefault(false));
  // Raising the floor never lowers it, and the version that raised it is not below it.
  auto raised = raisedFloor(left, right);
  KJ_ASSERT(!isOlder(raised, left).orDefault(false));
  KJ_ASSERT(!isOlder(raised, right).orDefault(false));
  bool known = isOlder(right, right) != nullptr;
  KJ_ASSERT(!known || raised == left || belowFloor(right, raised) == nullptr);
  return 0;
}
