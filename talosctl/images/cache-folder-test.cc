#include "talosctl/images/cache-folder.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/images/cache-command.h"
#include "talosctl/images/test-registry.h"

namespace talos::talosctl {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

struct ImageCacheTest : public ::testing::Test, public ConsoleFixture {
  ~ImageCacheTest() noexcept override {}

  machined::TestTree tree;
  std::string path = tree.at("cache").cStr();
  TestRegistry registry{io};

  // Returns the status; what is printed is in `err`.
  int create(std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"image",     "cache-create", "--image-cache-path",
                                      path,        "--images",     registry.host() + "/a/b:1",
                                      "--insecure"};
    words.insert(words.end(), more.begin(), more.end());
    kj::Vector<kj::StringPtr> arguments;
    for (auto& word : words) arguments.add(word.c_str());
    auto root = newRoot();
    addCommands(*root);
    registry.requests.clear();
    int status = run(deps, *root, arguments, kj::NEVER_DONE).wait(io.waitScope);
    err = console.takeErr().cStr();
    return status;
  }
  std::string err;

  std::set<std::string> files(const std::string& below) {
    std::set<std::string> names;
    for (auto& entry : fs::recursive_directory_iterator(below)) {
      if (entry.is_regular_file()) names.insert(entry.path().lexically_relative(below));
    }
    return names;
  }
  std::string nameOfBlob(const std::string& digest) { return "sha256-" + digest.substr(7); }
};

// Catches: the words of a system call in place of a sentence, for a folder that cannot be made.
TEST_F(ImageCacheTest, AFolderThatCannotBeMadeIsNamed) {
  tree.file("file", "");
  path = tree.at("file/cache").cStr();
  EXPECT_EQ(create(), 1);
  EXPECT_THAT(err,
              HasSubstr("error: cannot make the folder " + path + ".unfinished: Not a directory"));
}

// Catches: a cache without the image of the platform, with another layout, or that a daemon without
// privilege cannot read; a changed index, whose digest is not the registry's.
TEST_F(ImageCacheTest, HasTheImageOfThePlatform) {
  ASSERT_EQ(create(), 0) << err;
  EXPECT_THAT(err, HasSubstr("/a/b:1: 3 blobs, 300 kB"));
  auto repository = "127.0.0.1_" + std::to_string(registry.server.port) + "_/a/b";
  EXPECT_THAT(files(path + "/manifests"),
              UnorderedElementsAre(repository + "/reference/1",
                                   repository + "/digest/" + nameOfBlob(registry.index),
                                   repository + "/digest/" + nameOfBlob(registry.amd64)));
  EXPECT_EQ(files(path + "/blob").size(), 3u);
  auto tag = path + "/manifests/" + repository + "/reference/1";
  EXPECT_STREQ(readFile(tag.c_str()).cStr(), registry.content[registry.index].c_str());
  EXPECT_EQ(fs::status(tag).permissions(), fs::perms(0644));
  EXPECT_FALSE(fs::exists(path + ".unfinished"));
  EXPECT_EQ(create(), 1);
  EXPECT_THAT(err, HasSubstr("exists; use --force to add the images to it"));
  EXPECT_EQ(create({"--force", "--platform", "all"}), 0) << err;
  EXPECT_THAT(err, HasSubstr("2 blobs"));
  EXPECT_EQ(files(path + "/blob").size(), 5u);
}

// Catches: a cache that is taken for whole although a pull was interrupted, and one that is fetched
// again from its beginning.
TEST_F(ImageCacheTest, AnInterruptedRunContinues) {
  registry.breaks = registry.shared;
  EXPECT_EQ(create(), 1);
  EXPECT_FALSE(fs::exists(path));
  for (auto& name : files(path + ".unfinished")) EXPECT_THAT(name, HasSubstr("blob/sha256-"));
  EXPECT_EQ(files(path + ".unfinished").size(), 2u);
  registry.breaks.clear();
  ASSERT_EQ(create(), 0) << err;
  EXPECT_THAT(err, HasSubstr("1 blobs, 300 kB; 2 were there"));
  EXPECT_EQ(files(path + "/blob").size(), 3u);
}

// Catches: what a registry sends under another digest, in the cache.
TEST_F(ImageCacheTest, ALieIsNotKept) {
  for (auto& digest : {registry.shared, registry.amd64}) {
    registry.lies = digest;
    EXPECT_EQ(create(), 1);
    EXPECT_THAT(err, HasSubstr("does not have the digest " + digest));
    EXPECT_FALSE(fs::exists(path));
    EXPECT_FALSE(fs::exists(path + ".unfinished/blob/" + nameOfBlob(digest)));
  }
}

// Catches: a registry that requires a token, such as Docker Hub, and is not reached; a new token
// for each request.
TEST_F(ImageCacheTest, ATokenIsFetchedOnce) {
  registry.token = "Bearer abc";
  ASSERT_EQ(create(), 0) << err;
  unsigned tokens = 0;
  for (auto& request : registry.requests) tokens += request.starts_with("/token?");
  EXPECT_EQ(tokens, 1u);
  EXPECT_THAT(registry.requests,
              testing::Contains("/token?service=s&scope=repository%3Aa%2Fb%3Apull"));
}

// Catches: a mirror that is not asked, or that stands for its own images only.
TEST_F(ImageCacheTest, AMirrorIsAskedFirst) {
  auto mirror = "registry.example=http://" + registry.host();
  ASSERT_EQ(create({"--images", "registry.example/c:1", "--registry-mirror", mirror}), 0) << err;
  EXPECT_THAT(registry.requests, testing::Contains("/v2/c/manifests/1?ns=registry.example"));
  EXPECT_TRUE(fs::exists(path + "/manifests/registry.example/c/reference/1"));
}

// Catches: a mistake of the user that fetches something, or is found after hours.
TEST_F(ImageCacheTest, MistakesAreFoundBeforeAnythingIsFetched) {
  struct {
    std::vector<std::string> more;
    const char* message;
  } mistakes[] = {
      {{"--images", "a b"}, "\"a b\" is not a valid name of an image"},
      {{"--platform", "amd64"}, "\"amd64\" is not a valid platform"},
      {{"--layout", "oci"}, "--layout oci: a cache is a folder here"},
      {{"--registry-mirror", "x"}, "\"x\" is not a valid registry mirror"},
  };
  for (auto& mistake : mistakes) {
    EXPECT_EQ(create(mistake.more), 1);
    EXPECT_THAT(err, HasSubstr(mistake.message));
    EXPECT_THAT(registry.requests, ElementsAre());
    EXPECT_FALSE(fs::exists(path + ".unfinished"));
  }
  EXPECT_EQ(create({"--platform", "linux/s390x"}), 1);
  EXPECT_THAT(err, HasSubstr("the registry has no image for linux/s390x"));
}

}  // namespace
}  // namespace talos::talosctl
