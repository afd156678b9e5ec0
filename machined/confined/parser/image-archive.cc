#include "machined/confined/parser/image-archive.h"

#include <kj/map.h>

#include "common/base/error.h"
#include "common/base/version.h"
#include "common/tar/tar-reader.h"
#include "common/text/texts.h"
#include "machined/confined/parser/json-fields.h"

namespace talos::parse {
namespace {

using machined::ImagePart;

constexpr size_t kBlock = 512, kWindow = machined::kMostSuperblockBytes;
constexpr uint64_t kMostJson = 1u << 20;
constexpr size_t kMostBlobs = 4096, kMostLayers = 128;
constexpr unsigned kMostNested = 3;  // index, index of platforms, manifest
constexpr kj::StringPtr kOpaque = ".wh..wh..opq"_kj, kWhiteout = ".wh."_kj;

[[noreturn]] void refuse(kj::StringPtr problem) {
  fail(ErrorKind::kFailedPrecondition, kj::str("not an installer image: ", problem));
}

struct Extent {
  uint64_t offset = 0, size = 0;
};

// The most recently read part of the archive. Layers begin at blocks of the archive, so a block is
// never in two parts.
class Window {
 public:
  explicit Window(ReadBytes read) : read(kj::mv(read)) {}

  // Returns the bytes from `offset` to the end of its block; fewer bytes at the end of the archive.
  kj::ArrayPtr<const kj::byte> block(uint64_t offset) {
    auto begin = offset / kWindow * kWindow;
    if (begin != start || bytes.size() == 0) {
      if (++reads > machined::kMostArchiveReads) refuse("the archive takes too many reads");
      bytes = read(begin, kWindow);
      start = begin;
    }
    auto at = kj::min(offset - begin, bytes.size());
    auto rest = kBlock - offset % kBlock;
    return bytes.slice(at, kj::min(at + rest, bytes.size()));
  }
  kj::String text(Extent extent, kj::StringPtr name) {
    if (extent.size > kMostJson) refuse(kj::str(name, " is too large"));
    kj::Vector<char> out;
    for (uint64_t at = 0; at < extent.size; at += kBlock) {
      auto part = block(extent.offset + at);
      auto wanted = kj::min(extent.size - at, uint64_t{kBlock});
      if (part.size() < wanted) refuse("the archive is cut off");
      out.addAll(part.slice(0, wanted).asChars());
    }
    return kj::heapString(out.asPtr());
  }

 private:
  ReadBytes read;
  unsigned reads = 0;
  uint64_t start = 0;
  kj::Array<const kj::byte> bytes;
};

struct LastEntry final : TarVisitor {
  kj::Maybe<TarEntry> entered;
  void entry(const TarEntry& e) override {
    auto& own = entered.emplace();
    own.kind = e.kind;
    own.path = kj::str(e.path);
    own.size = e.size;
  }
  void data(kj::ArrayPtr<const kj::byte>) override {}
  void end() override {}
};

// Calls `see` for each entry of a tar in the archive, with the place of its data. Returns true if
// the tar has its end mark.
bool walk(Window& window, Extent tar, kj::StringPtr name,
          kj::FunctionParam<void(const TarEntry&, Extent)> see) {
  TarReader reader;
  LastEntry last;
  auto end = tar.offset + tar.size;
  auto at = tar.offset;
  while (at < end && !reader.atEnd()) {
    auto block = window.block(at);
    if (block.size() == 0) break;
    KJ_IF_MAYBE (problem, reader.feed(block, last)) refuse(kj::str(name, ": ", *problem));
    at += block.size();
    KJ_IF_MAYBE (entry, last.entered) {
      if (entry->size > end - kj::min(at, end))
        refuse(kj::str(name, ": ", entry->path, " is cut off"));
      see(*entry, {at, entry->size});
      last.entered = nullptr;
      at += reader.skipData(last);
    }
  }
  KJ_IF_MAYBE (problem, reader.finish()) refuse(kj::str(name, ": ", *problem));
  return reader.atEnd();
}

kj::Maybe<kj::String> cleanPath(kj::StringPtr path) {
  KJ_IF_MAYBE (parts, safePath(path)) return kj::strArray(*parts, "/");
  return nullptr;
}

// --- the layout

class Layout {
 public:
  Layout(Window& window, uint64_t size) : window(window) {
    auto see = [this](const TarEntry& entry, Extent place) {
      if (entry.kind != TarEntry::Kind::kFile) return;
      KJ_IF_MAYBE (path, cleanPath(entry.path)) {
        if (files.size() >= kMostBlobs) refuse("the archive has too many files");
        files.upsert(kj::mv(*path), place, [](Extent& old, Extent newer) { old = newer; });
      }
    };
    ended = walk(window, {0, size}, "the archive", see);
  }

  // Returns the layers of the image for this kind of machine, from the first layer on.
  kj::Vector<Extent> layers() {
    auto manifest = read("index.json");
    for (unsigned depth = 0; depth < kMostNested; ++depth) {
      auto value = manifest->getRoot<capnp::json::Value>().asReader();
      KJ_IF_MAYBE (list, fieldOf(value, "layers")) return layersOf(*list);
      auto next = blobOf(chosen(value));
      manifest = read(next);
    }
    refuse("the archive has no manifest of an image");
  }

 private:
  Window& window;
  kj::TreeMap<kj::String, Extent> files;
  bool ended;

  Extent require(kj::StringPtr name) {
    KJ_IF_MAYBE (place, files.find(name)) return *place;
    if (!ended) refuse(kj::str("the archive is cut off: it has no ", name, " and no end"));
    refuse(kj::str("the archive has no ", name,
                   "; use one that make installer-image, skopeo (oci-archive:) or docker save "
                   "(25 or newer) writes"));
  }
  kj::Own<capnp::MallocMessageBuilder> read(kj::StringPtr name) {
    auto text = window.text(require(name), name);
    kj::Own<capnp::MallocMessageBuilder> message;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { message = parseJson(text); })) {
      refuse(kj::str(name, " is ", messageOf(*e)));
    }
    return message;
  }
  static kj::String blobOf(kj::StringPtr digest) {
    constexpr kj::StringPtr kAlgorithm = "sha256:"_kj;
    if (!digest.startsWith(kAlgorithm)) refuse(kj::str("\"", digest, "\" is not a SHA-256 digest"));
    return kj::str("blobs/sha256/", digest.slice(kAlgorithm.size()));
  }
  static bool isForThisPlatform(Json manifest) {
    KJ_IF_MAYBE (platform, fieldOf(manifest, "platform")) {
      auto own = buildVersion();
      return stringOf(*platform, "os") == own.os && stringOf(*platform, "architecture") == own.arch;
    }
    return true;
  }
  // Returns the image's digest. A second name for the same digest is not a second image.
  static kj::String chosen(Json index) {
    kj::Maybe<kj::String> digest;
    KJ_IF_MAYBE (list, fieldOf(index, "manifests")) {
      if (!list->isArray()) refuse("index.json: manifests must be a list");
      for (auto manifest : list->getArray()) {
        if (!isForThisPlatform(manifest)) continue;
        auto own = stringOf(manifest, "digest");
        KJ_IF_MAYBE (other, digest) {
          if (*other != own) refuse("the archive has more than one image; save one of them");
        }
        digest = kj::mv(own);
      }
    }
    KJ_IF_MAYBE (d, digest) return kj::mv(*d);
    refuse(kj::str("the archive has no image for ", buildVersion().os, "/", buildVersion().arch));
  }
  kj::Vector<Extent> layersOf(Json list) {
    if (!list.isArray() || list.getArray().size() > kMostLayers) refuse("too many layers");
    kj::Vector<Extent> result;
    for (auto layer : list.getArray()) {
      auto type = stringOf(layer, "mediaType");
      for (auto packed : {"gzip"_kj, "zstd"_kj}) {
        if (!type.endsWith(packed)) continue;
        refuse(kj::str("layer ", result.size() + 1, " is compressed (", packed,
                       "); save the image with layers as they are, as make installer-image does"));
      }
      result.add(require(blobOf(stringOf(layer, "digest"))));
    }
    return result;
  }
};

// --- the files

class InstallFolder {
 public:
  // Adds a layer on top of the layers before.
  void add(Window& window, Extent layer, kj::StringPtr name) {
    kj::TreeMap<kj::String, kj::Maybe<Extent>> above;  // nullptr: not a file
    kj::Vector<kj::String> removed;
    bool opaque = false;
    walk(window, layer, name, [&](const TarEntry& entry, Extent place) {
      KJ_IF_MAYBE (path, cleanPath(entry.path)) {
        opaque = opaque || hidesAll(*path);
        bool folder = entry.kind == TarEntry::Kind::kDirectory;
        if ((*path == "usr" || *path == "usr/install") && !folder) {
          refuse(kj::str("/", *path, " is not a folder"));
        }
        if (!path->startsWith(kPrefix)) return;
        auto file = path->slice(kPrefix.size());
        if (file.startsWith(kWhiteout)) removed.add(kj::str(file.slice(kWhiteout.size())));
        if (!isWanted(file)) return;
        kj::Maybe<Extent> what;
        if (entry.kind == TarEntry::Kind::kFile) what = place;
        above.upsert(kj::str(file), what, [](auto& old, auto&& newer) { old = newer; });
      }
    });
    if (opaque) files.clear();
    for (auto& file : removed) files.erase(file);
    for (auto& entry : above) {
      files.upsert(kj::str(entry.key), entry.value, [](auto& old, auto&& newer) { old = newer; });
    }
  }

  kj::Vector<ImagePart> parts() {
    kj::Vector<ImagePart> result;
    for (auto name : machined::kImageFiles) {
      KJ_IF_MAYBE (place, files.find(name)) {
        KJ_IF_MAYBE (extent, *place) {
          result.add(ImagePart{kj::str(name), extent->offset, extent->size});
          continue;
        }
        refuse(kj::str("/", kPrefix, name, " is not a file"));
      }
      refuse(kj::str("/", kPrefix, name, " is missing"));
    }
    KJ_IF_MAYBE (place, files.find(machined::kConfigKeysFile)) {
      KJ_IF_MAYBE (extent, *place) {
        result.add(ImagePart{kj::str(machined::kConfigKeysFile), extent->offset, extent->size});
      }
    }
    return result;
  }

 private:
  static constexpr kj::StringPtr kPrefix = "usr/install/"_kj;
  kj::TreeMap<kj::String, kj::Maybe<Extent>> files;

  static bool isWanted(kj::StringPtr file) {
    return contains(machined::kImageFiles, file) || file == machined::kConfigKeysFile;
  }
  // Returns true if the path hides the folder's entries of all layers below.
  static bool hidesAll(kj::StringPtr path) {
    for (auto sign : {".wh.usr"_kj, "usr/.wh.install"_kj}) {
      if (path == sign) return true;
    }
    for (auto folder : {""_kj, "usr/"_kj, "usr/install/"_kj}) {
      if (path == kj::str(folder, kOpaque)) return true;
    }
    return false;
  }
};

}  // namespace

kj::Vector<ImagePart> findImageParts(uint64_t size, ReadBytes read) {
  Window window(kj::mv(read));
  Layout layout(window, size);
  InstallFolder folder;
  unsigned number = 0;
  for (auto layer : layout.layers()) folder.add(window, layer, kj::str("layer ", ++number));
  return folder.parts();
}

}  // namespace talos::parse
