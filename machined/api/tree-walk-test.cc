#include "machined/api/tree-walk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <malloc.h>

#include <vector>

#include "common/base/error.h"
#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

kj::String trace(TreeWalk& walk) {
  kj::Vector<kj::String> steps;
  for (;;) {
    auto visit = walk.next();
    KJ_IF_MAYBE (v, visit) {
      steps.add(kj::str(v->leaving ? "/" : "", v->relative, v->error.size() > 0 ? "!" : ""));
    } else {
      return kj::strArray(steps, " ");
    }
  }
}

class Walk : public testing::Test {
 public:
  ~Walk() noexcept override {}

 protected:
  TestTree tree;
  Walk() {
    tree.directory("top/b/deep");
    tree.file("top/b/deep/f", "12345");
    tree.file("top/a", "123");
    tree.directory("top/c");
    tree.link("top/loop", "..");
    tree.link("alias", "top");
  }
};

// Catches: an order that differs from run to run, links followed in circles, levels miscounted.
TEST_F(Walk, OrderAndDepth) {
  TreeWalk all(tree.at("top"), 0);
  EXPECT_EQ(trace(all), ". a b b/deep b/deep/f /b/deep /b c /c loop /.");
  TreeWalk one(tree.at("top"), 1);
  EXPECT_EQ(trace(one), ". a b c loop /.");
  TreeWalk two(tree.at("top"), 2);
  EXPECT_EQ(trace(two), ". a b b/deep /b c /c loop /.");
  TreeWalk file(tree.at("top/a"), 0);
  EXPECT_EQ(trace(file), ".");
}

// Catches: `ls /link` that shows a link and nothing of its target.
TEST_F(Walk, RootThatIsALinkIsResolved) {
  TreeWalk walk(tree.at("alias"), 1);
  EXPECT_EQ(walk.root(), tree.at("top"));
  EXPECT_EQ(trace(walk), ". a b c loop /.");
}

// Catches: a missing root that looks like an empty one.
TEST_F(Walk, MissingRootIsNotFound) {
  for (auto path : {"nothing"_kj, "top/a/below"_kj}) {
    auto failure = kj::runCatchingExceptions([&] { TreeWalk(tree.at(path), 0); });
    EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kNotFound);
    EXPECT_NE(strstr(KJ_ASSERT_NONNULL(failure).getDescription().cStr(), tree.at(path).cStr()),
              nullptr);
  }
}

// Catches: a file that vanishes during the walk and ends it or appears as an error.
TEST_F(Walk, FileThatVanishesIsLeftOut) {
  TreeWalk walk(tree.at("top"), 0);
  ASSERT_TRUE(walk.next() != nullptr);
  removeTree(tree.at("top/a"));
  removeTree(tree.at("top/b"));
  EXPECT_EQ(trace(walk), "c /c loop /.");
}

// Makes empty files PREFIX0 to PREFIXn, without the care of TestTree.
void fill(kj::StringPtr directory, unsigned count, kj::StringPtr prefix) {
  for (unsigned i = 0; i < count; ++i) {
    auto path = kj::str(directory, '/', prefix, i);
    int fd = open(path.cStr(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    KJ_ASSERT(fd >= 0, path);
    close(fd);
  }
}

struct Walked {
  std::vector<unsigned> times;  // visits of each file, by its number
  size_t steps = 0;
  size_t mostHeap = 0;  // most heap of the walk
};
Walked walkOver(kj::StringPtr root, unsigned files, kj::StringPtr prefix) {
  Walked walked{.times = std::vector<unsigned>(files)};
  auto before = mallinfo2().uordblks;
  TreeWalk walk(root, 0);
  for (;;) {
    auto visit = walk.next();
    KJ_IF_MAYBE (v, visit) {
      ++walked.steps;
      walked.mostHeap = kj::max(walked.mostHeap, mallinfo2().uordblks - before);
      kj::StringPtr name = v->path.slice(KJ_ASSERT_NONNULL(v->path.findLast('/')) + 1);
      if (name.startsWith(prefix)) ++walked.times[name.slice(prefix.size()).parseAs<unsigned>()];
    } else {
      return walked;
    }
  }
}

// Catches: a directory that a pod has filled and that is read whole into the brain; entries that
// come twice or not at all at the border of two parts.
TEST_F(Walk, ADirectoryWithManyEntriesComesInParts) {
  tree.directory("many");
  constexpr unsigned kFiles = 30'000;
  fill(tree.at("many"), kFiles, "f");
  auto walked = walkOver(tree.at("many"), kFiles, "f");
  EXPECT_EQ(walked.times, std::vector<unsigned>(kFiles, 1));
  EXPECT_EQ(walked.steps, kFiles + 2);
  EXPECT_LT(walked.mostHeap, 2 * kMostNameBytes);
}

// Catches: memory that is bounded for one directory, but not for its parents, whose names wait
// during the walk below.
TEST_F(Walk, ADeepTreeOfManyEntriesIsBoundedToo) {
  constexpr unsigned kLevels = 60, kFiles = 500;
  auto prefix = kj::str(kj::repeat('z', 100));
  auto directory = kj::str(tree.root);
  for (unsigned i = 0; i < kLevels; ++i) {
    directory = kj::str(directory, "/a");
    KJ_SYSCALL(mkdir(directory.cStr(), 0700));
    fill(directory, kFiles, prefix);
  }
  auto walked = walkOver(tree.at("a"), kFiles, prefix);
  EXPECT_EQ(walked.times, std::vector<unsigned>(kFiles, kLevels));
  EXPECT_LT(walked.mostHeap, 2 * kMostNameBytes);
}

kj::String usage(kj::StringPtr root, UsageOptions options) {
  UsageWalk walk(root, options);
  kj::Vector<kj::String> items;
  for (;;) {
    kj::Maybe<UsageItem> item;
    if (!walk.step(item)) return kj::strArray(items, " ");
    KJ_IF_MAYBE (i, item) {
      struct stat st;
      // Directories have sizes that differ between file systems.
      uint64_t own = 0;
      if (lstat(i->path.cStr(), &st) == 0 && S_ISDIR(st.st_mode)) own = st.st_size;
      items.add(kj::str(i->relative, '=', i->size - own));
    }
  }
}

// Catches: sums without the contents below, directories before their children, files without a
// request for them.
TEST(Usage, DirectoriesAreSummedBottomUp) {
  TestTree tree;
  tree.directory("d/e");
  tree.file("d/e/five", "12345");
  tree.file("d/three", "123");
  struct stat d, e;
  KJ_SYSCALL(lstat(tree.at("d").cStr(), &d));
  KJ_SYSCALL(lstat(tree.at("d/e").cStr(), &e));
  uint64_t dir = e.st_size;
  EXPECT_EQ(usage(tree.at("d"), {}), kj::str("e=5 .=", 8 + dir));
  EXPECT_EQ(usage(tree.at("d"), {.all = true}), kj::str("e/five=5 e=5 three=3 .=", 8 + dir));
  EXPECT_EQ(usage(tree.root, {.depth = 1}), kj::str(".=", 8 + dir + d.st_size)) << "the root";
  EXPECT_EQ(usage(tree.root, {.depth = 2}), kj::str("d=", 8 + dir, " .=", 8 + dir + d.st_size));
  EXPECT_EQ(usage(tree.at("d/three"), {}), ".=3");
}

// Catches: thresholds that work the wrong way round or hide an item of exactly this size.
TEST(Usage, ThresholdsKeepItemsOfExactlyTheirSize) {
  TestTree tree;
  tree.file("five", "12345");
  tree.file("three", "123");
  auto files = [&](int64_t threshold) {
    UsageWalk walk(tree.root, {.all = true, .threshold = threshold});
    kj::Vector<kj::String> names;
    for (;;) {
      kj::Maybe<UsageItem> item;
      if (!walk.step(item)) break;
      KJ_IF_MAYBE (i, item) {
        if (i->relative != ".") names.add(kj::mv(i->relative));
      }
    }
    return kj::strArray(names, " ");
  };
  EXPECT_EQ(files(5), "five");
  EXPECT_EQ(files(6), "");
  EXPECT_EQ(files(-3), "three");
  EXPECT_EQ(files(-5), "five three");
  EXPECT_EQ(files(INT64_MIN), "five three");
}

// Catches: a du of / that reports 128 TiB.
TEST(Usage, KcoreCountsNothing) {
  struct stat st{};
  st.st_size = int64_t{1} << 47;
  EXPECT_EQ(countedSize("/proc/kcore", st), 0u);
  EXPECT_EQ(countedSize("/var/kcore", st), uint64_t{1} << 47);
}

}  // namespace
}  // namespace talos::machined
