#include "machined/config/trust/certificate-renewal.h"

#include <gtest/gtest.h>

namespace talos::machined {
namespace {

constexpr auto kYear = 365 * kj::DAYS;

// Catches: a boot argument that shortens the certificates of a machine; an invalid value that
// counts as no argument, or that makes certificates expire at once.
TEST(DebugLifetime, IsForContainersAlone) {
  std::string said;
  auto lifetime = [&](const char* arguments, kj::StringPtr platform = "container") {
    said.clear();
    return certificateLifetime(KernelArguments(kj::StringPtr(arguments).asArray()), platform, kYear,
                               [&](kj::StringPtr text) { said = text.cStr(); });
  };
  EXPECT_EQ(lifetime("quiet"), kYear);
  EXPECT_EQ(said, "");
  EXPECT_EQ(lifetime("talos.debug.certificates=10m"), 10 * kj::MINUTES);
  EXPECT_EQ(lifetime("talos.debug.certificates=10m", "metal"), kYear);
  EXPECT_EQ(said, "");
  for (auto wrong : {"59s", "8761h", "ten", "", "-10m"}) {
    EXPECT_EQ(lifetime((std::string("talos.debug.certificates=") + wrong).c_str()), kYear) << wrong;
    EXPECT_EQ(said, std::string("talos.debug.certificates: \"") + wrong +
                        "\" is not a duration from 1m to 8760h; certificates have their usual "
                        "lifetime");
  }
}

}  // namespace
}  // namespace talos::machined
