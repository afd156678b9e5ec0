#include "machined/disk/installer/digest-list.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace talos::install {
namespace {

std::string problem(kj::FunctionParam<void()> work) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { work(); })) return messageOf(*e).cStr();
  return "";
}

std::string digits(char c) {
  return std::string(64, c);
}

}  // namespace

// Catches: a damaged file that passes; an unlisted file that passes.
TEST(DigestList, AFileIsWhatTheListSays) {
  auto text = digits('a') + "  vmlinuz\n" + digits('0') + "  a b\n\n";
  DigestList list(kj::arrayPtr(text.data(), text.size()));
  EXPECT_TRUE(list.lists("a b"));
  EXPECT_FALSE(list.lists("initramfs"));
  list.check("vmlinuz", digits('a').c_str());
  list.check("a b", digits('0').c_str());
  EXPECT_NE(problem([&] {
              list.check("vmlinuz", digits('b').c_str());
            }).find("vmlinuz is damaged or cut off"),
            std::string::npos);
  EXPECT_EQ(problem([&] { list.check("initramfs", digits('a').c_str()); }),
            "SHA256SUMS does not list initramfs");
}

// Catches: another text that is taken for an empty list, or is read beyond its end.
TEST(DigestList, InvalidListIsRefused) {
  for (auto& line : {digits('a'), digits('a') + "  ", digits('A') + "  x", digits('a') + " *x",
                     std::string("x"), digits('a') + std::string("  x\0y", 5)}) {
    auto text = digits('a') + "  vmlinuz\n" + line;
    auto said = problem([&] { DigestList(kj::arrayPtr(text.data(), text.size())); });
    EXPECT_EQ(said, "SHA256SUMS:2: not a digest and a name, as sha256sum writes them") << line;
  }
}

// Catches: a version that breaks lines and tables.
TEST(DigestList, VersionsAreWords) {
  EXPECT_EQ(imageVersion("v0.9.0-3+x_y\n"_kj.asArray()), "v0.9.0-3+x_y");
  auto tooLong = std::string(65, 'v');
  for (auto& text : {std::string(""), std::string("\n"), std::string("a b"), std::string("a\nb"),
                     std::string("a\0", 2), tooLong}) {
    EXPECT_EQ(problem([&] { imageVersion(kj::arrayPtr(text.data(), text.size())); }),
              "the file version is not a version");
  }
}

}  // namespace talos::install
