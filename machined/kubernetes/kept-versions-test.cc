#include "machined/kubernetes/kept-versions.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::machined {
namespace {

struct KeptTest : public testing::Test {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  char folder[32] = "/tmp/kept-versions-XXXXXX";
  kj::String file;
  bool mounted = true;

  KeptTest() {
    KJ_ASSERT(mkdtemp(folder) != nullptr);
    file = kj::str(folder, "/versions");
  }
  ~KeptTest() noexcept override { removeTree(folder); }

  kj::Own<KeptVersions> boot() {
    return kj::heap<KeptVersions>(KeptVersions::Dependencies{
        [](kj::Function<void()> work) { return kj::evalLater(kj::mv(work)); },
        [this] { return mounted; }, file});
  }
  uint64_t of(KeptVersions& kept, kj::StringPtr name, kj::StringPtr content) {
    return kept.of(name, content.asBytes()).wait(scope);
  }
};

// Catches: a pod that differs after each reboot; a number that is used for two contents.
TEST_F(KeptTest, TheSameContentHasTheSameVersionForEver) {
  auto first = boot();
  EXPECT_EQ(1u, of(*first, "kube-apiserver", "a"));
  EXPECT_EQ(1u, of(*first, "kube-scheduler", "x"));
  EXPECT_EQ(2u, of(*first, "kube-apiserver", "b"));
  EXPECT_EQ(2u, of(*first, "kube-apiserver", "b"));
  auto second = boot();
  EXPECT_EQ(2u, of(*second, "kube-apiserver", "b"));
  EXPECT_EQ(1u, of(*second, "kube-scheduler", "x"));
  // A return to the earlier content is a change as well.
  EXPECT_EQ(3u, of(*second, "kube-apiserver", "a"));
  EXPECT_EQ(3u, of(*boot(), "kube-apiserver", "a"));
}

// Catches: a version that is published before it is on the disk.
TEST_F(KeptTest, NobodyHearsAVersionThatIsNotKept) {
  auto kept = boot();
  EXPECT_EQ(1u, of(*kept, "kube-apiserver", "a"));
  removeTree(folder);
  EXPECT_THROW(of(*kept, "kube-apiserver", "b"), kj::Exception);
  EXPECT_THROW(of(*kept, "kube-apiserver", "b"), kj::Exception);
  makeDirectories(folder);
  EXPECT_EQ(2u, of(*kept, "kube-apiserver", "b"));
}

TEST_F(KeptTest, AskedTogetherEachIsCounted) {
  auto kept = boot();
  auto a = kept->of("a", "1"_kj.asBytes()), b = kept->of("b", "1"_kj.asBytes()),
       again = kept->of("a", "2"_kj.asBytes());
  EXPECT_EQ(2u, again.wait(scope));
  a.wait(scope);
  EXPECT_EQ(1u, b.wait(scope));
  EXPECT_EQ(2u, of(*boot(), "a", "2"));
}

TEST_F(KeptTest, WithoutStateTheyLastAsLongAsTheBrain) {
  mounted = false;
  auto kept = boot();
  EXPECT_EQ(1u, of(*kept, "a", "1"));
  EXPECT_EQ(2u, of(*kept, "a", "2"));
  EXPECT_TRUE(tryReadFile(file) == nullptr);
}

TEST_F(KeptTest, WhatWasCountedBeforeStateGoesOnAboveBoth) {
  auto before = boot();
  of(*before, "a", "1");
  of(*before, "a", "2");
  EXPECT_EQ(3u, of(*before, "a", "3"));
  of(*before, "b", "1");
  mounted = false;
  auto kept = boot();
  EXPECT_EQ(1u, of(*kept, "a", "4"));
  EXPECT_EQ(1u, of(*kept, "b", "1"));
  mounted = true;
  EXPECT_EQ(4u, of(*kept, "a", "4"));
  EXPECT_EQ(5u, of(*kept, "a", "5"));
  EXPECT_EQ(1u, of(*kept, "b", "1"));
}

TEST_F(KeptTest, DamageIsFoundAndIsNoReasonToStop) {
  for (auto text : {"kube-apiserver", "kube-apiserver 1", "kube-apiserver 0 ab", " 1 2", "a b c\n",
                    "kube-apiserver 1 ab cd\n"}) {
    kj::Vector<kj::String> unknown;
    EXPECT_EQ(0u, readKeptVersions(text, unknown).size()) << text;
    EXPECT_EQ(1u, unknown.size()) << text;
  }
  writeFileAtomically(file, "damaged"_kj, 0600);
  EXPECT_EQ(1u, of(*boot(), "a", "1"));
}

// Catches: a line or a field of a later release, after a fall-back to this one, because of which
// all numbers are lost: the pods of the control plane would be restarted.
TEST_F(KeptTest, ALaterReleaseTakesNoNumbersAway) {
  for (int i = 0; i < 3; ++i) of(*boot(), "kube-apiserver", kj::str(i));
  auto own = readFile(file);
  auto later = kj::str("@format 2\n", own.slice(0, own.size() - 1), " later=1\n");
  writeFileAtomically(file, later, 0600);
  EXPECT_EQ(3u, of(*boot(), "kube-apiserver", "2"));
  EXPECT_EQ(4u, of(*boot(), "kube-apiserver", "3"));
}

}  // namespace
}  // namespace talos::machined
