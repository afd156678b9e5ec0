// Archives with images, valid and invalid ones, as tools write them.
#include "machined/confined/parser/image-archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/version.h"
#include "common/tar/test-tar.h"

namespace talos::parse {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

kj::String textOf(TestTar& tar) {
  return kj::heapString(tar.finish().asChars());
}

// The content of a layer of the layout.
struct TestLayer {
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::pair<std::string, std::string>> links = {};
};
struct TestLayout {
  std::vector<TestLayer> layers;
  std::string layerType = "application/vnd.oci.image.layer.v1.tar";
  std::string index = R"({"manifests":[{"digest":"sha256:m"}]})";
  std::map<std::string, std::string> more = {};  // files of the layout
  bool layersLast = false;                       // after the blobs that name them

  kj::Array<kj::byte> bytes() const {
    TestTar tar;
    tar.directory("./", 0755);
    std::string list;
    for (size_t i = 0; i < layers.size(); ++i) {
      list += (i > 0 ? ",{" : "{") + ("\"mediaType\":\"" + layerType) + "\",\"digest\":\"sha256:l" +
              std::to_string(i) + "\"}";
    }
    auto names = [&]() {
      tar.file("./blobs/sha256/m", 0644, ("{\"layers\":[" + list + "]}").c_str());
      tar.file("./index.json", 0644, index.c_str());
    };
    if (layersLast) names();
    for (size_t i = 0; i < layers.size(); ++i) {
      TestTar layer;
      layer.directory("./usr/", 0755);
      layer.directory("./usr/install/", 0755);
      for (auto& [path, text] : layers[i].files) layer.file(path.c_str(), 0644, text.c_str());
      for (auto& [path, to] : layers[i].links) layer.symlink(path.c_str(), to.c_str());
      tar.file(kj::str("./blobs/sha256/l", i), 0644, textOf(layer));
    }
    if (!layersLast) names();
    for (auto& [path, text] : more) tar.file(path.c_str(), 0644, text.c_str());
    return tar.finish();
  }
};
TestLayer wholeImage() {
  return {{{"./usr/install/vmlinuz", "kernel"},
           {"./usr/install/initramfs", "early"},
           {"./usr/install/rootfs.sqsh", "root"},
           {"./usr/install/version", "v1\n"},
           {"./usr/install/SHA256SUMS", "sums"},
           {"./etc/other", "x"}}};
}

std::map<std::string, std::string> found(kj::ArrayPtr<const kj::byte> archive) {
  std::map<std::string, std::string> result;
  auto parts = findImageParts(archive.size(), [&](uint64_t offset, size_t size) {
    EXPECT_LE(size, machined::kMostSuperblockBytes);
    auto begin = kj::min(offset, archive.size());
    return kj::heapArray<const kj::byte>(
        archive.slice(begin, begin + kj::min(size, archive.size() - begin)));
  });
  for (auto& part : parts) {
    auto bytes = archive.slice(part.offset, part.offset + part.size).asChars();
    result[part.name.cStr()] = std::string(bytes.begin(), bytes.size());
  }
  return result;
}
std::string problemOf(kj::ArrayPtr<const kj::byte> archive) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { found(archive); })) return messageOf(*e).cStr();
  return "";
}

}  // namespace

// Catches: a file that is read from a wrong place; a large layer whose end is not found.
TEST(ImageArchive, TheFilesOfOneLayer) {
  auto files = found(TestLayout{{wholeImage()}}.bytes());
  EXPECT_EQ(files.size(), 5u);
  EXPECT_EQ(files["vmlinuz"], "kernel");
  EXPECT_EQ(files["rootfs.sqsh"], "root");
  EXPECT_EQ(files["version"], "v1\n");
  auto large = wholeImage();
  large.files.insert(large.files.begin(), {"./usr/big", std::string(1'000'000, 'a')});
  large.files[3].second = std::string(300'001, 'r');
  EXPECT_EQ(found(TestLayout{{large}}.bytes())["rootfs.sqsh"], std::string(300'001, 'r'));
}

// Catches: an image of an earlier release, which does not list the keys of configs, that is
// refused; a list that is not found, or found although it was removed.
TEST(ImageArchive, TheKeysOfConfigsMayBeListed) {
  TestLayer list{{{"usr/install/config-keys", "machine\n"}}},
      remover{{{"usr/install/.wh.config-keys", ""}}};
  auto files = found(TestLayout{{wholeImage(), list}}.bytes());
  EXPECT_EQ(files.size(), 6u);
  EXPECT_EQ(files["config-keys"], "machine\n");
  EXPECT_EQ(found(TestLayout{{wholeImage(), list, remover}}.bytes()).size(), 5u);
}

// Catches: a file of a lower layer that was replaced or removed, and is still installed.
TEST(ImageArchive, LaterLayersLieAboveEarlierOnes) {
  TestLayer second{{{"usr/install/vmlinuz", "newer"}}};
  EXPECT_EQ(found(TestLayout{{wholeImage(), second}}.bytes())["vmlinuz"], "newer");
  EXPECT_EQ(found(TestLayout{{wholeImage(), second}}.bytes())["version"], "v1\n");
  for (auto sign : {"usr/install/.wh.vmlinuz", "usr/install/.wh..wh..opq", "usr/.wh.install",
                    ".wh.usr", "usr/.wh..wh..opq"}) {
    TestLayer remover{{{sign, ""}}};
    EXPECT_THAT(problemOf(TestLayout{{wholeImage(), remover}}.bytes()),
                HasSubstr("/usr/install/vmlinuz is missing"))
        << sign;
    // A whiteout affects only the layers below its own.
    TestLayer anew = wholeImage();
    anew.files.push_back({sign, ""});
    EXPECT_EQ(found(TestLayout{{wholeImage(), anew}}.bytes())["vmlinuz"], "kernel") << sign;
  }
}

// Catches: an archive that cannot be installed and whose refusal does not say why.
TEST(ImageArchive, UnusableArchiveIsRefusedWithTheReason) {
  TestLayout gzipped{{wholeImage()}};
  gzipped.layerType += "+gzip";
  EXPECT_THAT(problemOf(gzipped.bytes()), HasSubstr("layer 1 is compressed (gzip)"));
  TestLayer linked = wholeImage();
  linked.links.push_back({"usr/install/vmlinuz", "/etc/shadow"});
  EXPECT_THAT(problemOf(TestLayout{{linked}}.bytes()), HasSubstr("vmlinuz is not a file"));
  TestLayer folder{{}, {{"usr", "/etc"}}};
  EXPECT_THAT(problemOf(TestLayout{{wholeImage(), folder}}.bytes()),
              HasSubstr("/usr is not a folder"));
  TestLayout two{{wholeImage()}};
  two.index = R"({"manifests":[{"digest":"sha256:m"},{"digest":"sha256:n"}]})";
  EXPECT_THAT(problemOf(two.bytes()), HasSubstr("more than one image"));
  TestLayout outside{{wholeImage()}};
  outside.index = R"({"manifests":[{"digest":"sha256:../../index.json"}]})";
  EXPECT_THAT(problemOf(outside.bytes()), HasSubstr("the archive has no blobs/sha256/"));
  TestLayout endless{{wholeImage()}};
  endless.more["blobs/sha256/again"] = endless.index =
      R"({"manifests":[{"digest":"sha256:again"}]})";
  EXPECT_THAT(problemOf(endless.bytes()), HasSubstr("no manifest of an image"));
  EXPECT_THAT(problemOf("an HTML page"_kj.asBytes()), HasSubstr("not an installer image"));
  TestLayout listless{{wholeImage()}};
  listless.index = R"({"manifests":{}})";
  EXPECT_THAT(problemOf(listless.bytes()), HasSubstr("index.json: manifests must be a list"));
}

// Catches: an archive that was not copied whole, and whose error sends the user to another tool.
TEST(ImageArchive, OneThatIsCutOffIsSaidToBe) {
  TestLayout layout{{wholeImage()}};
  for (bool last : {false, true}) {
    layout.layersLast = last;
    auto whole = layout.bytes();
    auto files = whole.size() - 1024;  // without the mark of its end
    ASSERT_EQ(found(whole.slice(0, files))["vmlinuz"], "kernel");
    for (size_t size = 0; size < files; size += 256) {
      EXPECT_THAT(problemOf(whole.slice(0, size)),
                  AnyOf(HasSubstr("is cut off"), HasSubstr("the archive: truncated after ")))
          << size;
    }
  }
}

// Catches: the image of another kind of machine, or an attestation, that is accepted.
TEST(ImageArchive, TheManifestIsThatOfThisKindOfMachine) {
  std::string own = buildVersion().arch.cStr(), other = own == "amd64" ? "arm64" : "amd64";
  auto manifest = [](const std::string& digest, const std::string& os, const std::string& arch) {
    return R"({"digest":"sha256:)" + digest + R"(","platform":{"os":")" + os +
           R"(","architecture":")" + arch + R"("}})";
  };
  TestLayout many{{wholeImage()}};
  many.index = R"({"manifests":[)" + manifest("other", "linux", other) + "," +
               manifest("nested", "linux", own) + "," + manifest("note", "unknown", "unknown") +
               "]}";
  many.more["blobs/sha256/nested"] = R"({"manifests":[{"digest":"sha256:m"}]})";
  EXPECT_EQ(found(many.bytes())["vmlinuz"], "kernel");
  many.index = R"({"manifests":[)" + manifest("m", "linux", other) + "]}";
  EXPECT_THAT(problemOf(many.bytes()), HasSubstr("no image for linux/" + own));
}

}  // namespace talos::parse
