#include "machined/process1/init/root-layers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace talos::process1 {
namespace {

std::string digestOfText(const std::string& text, size_t piece) {
  LayerDigest digest;
  for (size_t at = 0; at < text.size(); at += piece) {
    auto part = text.substr(at, piece);
    digest.add(reinterpret_cast<const uint8_t*>(part.data()), part.size());
  }
  char digits[kDigestDigits + 1];
  digest.finish(digits);
  return digits;
}

// The examples of FIPS 180-4, and lengths on both sides of a block: a padding that needs another
// block, and pieces that end inside of one.
TEST(RootLayers, ComputesSha256) {
  struct Row {
    std::string text;
    const char* digest;
  };
  const Row kRows[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1'000'000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
  for (auto& row : kRows) {
    for (size_t piece : {1, 55, 63, 64, 65, 4096}) {
      EXPECT_EQ(digestOfText(row.text, piece), row.digest) << row.text.size() << " by " << piece;
    }
  }
}

TEST(RootLayers, ReadsTheDigestOfAFile) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  ASSERT_EQ(write(fds[1], "abc", 3), 3);
  close(fds[1]);
  char digits[kDigestDigits + 1];
  EXPECT_EQ(digestOfFile(fds[0], digits), 0);
  EXPECT_STREQ(digits, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  close(fds[0]);
  EXPECT_EQ(digestOfFile(fds[0], digits), EBADF);  // an error is not an empty file
}

const std::string kDigest(64, 'a');

std::vector<std::string> namesIn(std::string list, bool& wrong) {
  std::vector<std::string> names;
  char* rest = list.data();
  RootLayer layer;
  wrong = false;
  while (nextLayer(rest, layer, wrong)) {
    EXPECT_EQ(std::string(layer.digest, kDigestDigits), kDigest);
    names.emplace_back(layer.name);
  }
  return names;
}

TEST(RootLayers, ReadsTheListOfLayers) {
  bool wrong;
  EXPECT_EQ(namesIn(kDigest + "  1.sqsh\n" + kDigest + "  2.sqsh\n", wrong),
            (std::vector<std::string>{"1.sqsh", "2.sqsh"}));
  EXPECT_FALSE(wrong);
  EXPECT_EQ(namesIn(kDigest + "  1.sqsh", wrong), std::vector<std::string>{"1.sqsh"});
  EXPECT_FALSE(wrong);
  EXPECT_EQ(namesIn("", wrong).size(), 0u);
  EXPECT_FALSE(wrong);
}

// A line that is taken for a layer with another digest, or for a file elsewhere, would defeat the
// check of the layers.
TEST(RootLayers, RefusesOtherLines) {
  for (std::string line : {"\n", "x\n", "  1.sqsh\n", "aa  1.sqsh\n"}) {
    bool wrong;
    EXPECT_EQ(namesIn(line, wrong).size(), 0u) << line;
    EXPECT_TRUE(wrong) << line;
  }
  for (std::string end :
       {"", " 1.sqsh", "\t1.sqsh", "  ", "  ../1.sqsh", "  a/b", "  .", "a  1.sqsh"}) {
    bool wrong;
    EXPECT_EQ(namesIn(kDigest + end + "\n", wrong).size(), 0u) << end;
    EXPECT_TRUE(wrong) << end;
  }
}

}  // namespace
}  // namespace talos::process1
