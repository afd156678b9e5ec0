// OpenNebula: "Contextualization" of its documentation: a volume labelled CONTEXT with a file
// context.sh of lines KEY='value'.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Request kOpennebulaFacts[] = {{"context"_kj, "context.sh"_kj, true}};

}  // namespace

const Platform kOpennebula{.name = "opennebula"_kj,
                           .title = "OpenNebula"_kj,
                           .consoles = "tty1 ttyS0"_kj,
                           .server = ""_kj,
                           .metadata = nullptr,
                           .config = {"context"_kj, "context.sh"_kj},
                           .encoding = Encoding::kContext,
                           .facts = kOpennebulaFacts,
                           .volume = "context"_kj};

}  // namespace talos::platforms
