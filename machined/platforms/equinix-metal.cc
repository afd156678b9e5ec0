// Equinix Metal: "Metadata" of its documentation. The firmware of its machines does not name the
// provider.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Request kEquinixMetalFacts[] = {{"metadata"_kj, "/metadata"_kj, true}};

}  // namespace

const Platform kEquinixMetal{.name = "equinixMetal"_kj,
                             .title = "Equinix Metal"_kj,
                             .consoles = "ttyS1,115200n8"_kj,
                             .server = "https://metadata.platformequinix.com"_kj,
                             .metadata = nullptr,
                             .config = {"userdata"_kj, "/userdata"_kj},
                             .facts = kEquinixMetalFacts};

}  // namespace talos::platforms
