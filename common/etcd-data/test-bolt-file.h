// A file of bbolt with the keys of etcd, as small as such files get; for tests.
#pragma once

#include <string.h>

#include <string>
#include <utility>
#include <vector>

namespace talos {

class BoltFile {
 public:
  static constexpr size_t kPage = 1024;
  std::string bytes = std::string(2 * kPage, '\0');

  // Appends one of the first two pages, which are metas. `root`: the page of the bucket of all
  // buckets.
  void meta(unsigned which, uint64_t root, uint64_t transaction, uint64_t pageSize = kPage) {
    std::string meta;
    for (uint32_t value : {0xed0cdaedu, 2u, static_cast<uint32_t>(pageSize), 0u}) add(meta, value);
    for (uint64_t value : {root, uint64_t{0}, uint64_t{0}, uint64_t{9}, transaction}) {
      add(meta, value);
    }
    add(meta, sumOf(meta));
    bytes.replace(which * kPage, kPage, page(which, 4, 0, meta));
  }
  // Returns the number of the page.
  uint64_t leaf(const std::vector<std::pair<std::string, std::string>>& entries,
                uint32_t flags = 0) {
    return append(2, entries.size(), leafContent(entries, flags));
  }
  uint64_t branch(const std::vector<std::pair<std::string, uint64_t>>& children) {
    std::string elements, keys;
    for (auto& [key, child] : children) {
      add(elements,
          static_cast<uint32_t>((children.size() - elements.size() / 16) * 16 + keys.size()));
      add(elements, static_cast<uint32_t>(key.size()));
      add(elements, child);
      keys += key;
    }
    return append(1, children.size(), elements + keys);
  }
  // Returns the value of a bucket: with a root, or so small that its leaf is in it.
  static std::string bucket(uint64_t root) {
    std::string value;
    add(value, root), add(value, uint64_t{0});
    return value;
  }
  static std::string inlineBucket(const std::vector<std::pair<std::string, std::string>>& entries) {
    return bucket(0) + header(0, 2, entries.size()) + leafContent(entries, 0);
  }
  static std::string revision(uint64_t main, bool deletion = false) {
    std::string key;
    for (int shift = 56; shift >= 0; shift -= 8) key += static_cast<char>(main >> shift);
    return key + "_" + std::string(8, '\0') + (deletion ? "t" : "");
  }
  // Returns a database with two keys, up to this revision.
  static std::string etcd(uint64_t newest) {
    BoltFile file;
    auto keys = file.leaf({{revision(2), "a"}, {revision(newest), "b"}});
    auto root = file.leaf({{"key", bucket(keys)}, {"meta", bucket(0)}}, 1);
    file.meta(0, root, 4), file.meta(1, root, 5);
    return file.bytes;
  }

 private:
  template <typename T>
  static void add(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static uint64_t sumOf(const std::string& text) {
    uint64_t sum = 14695981039346656037u;
    for (unsigned char byte : text) sum = (sum ^ byte) * 1099511628211u;
    return sum;
  }
  static std::string header(uint64_t number, uint16_t flags, size_t count) {
    std::string out;
    add(out, number), add(out, flags), add(out, static_cast<uint16_t>(count)), add(out, 0u);
    return out;
  }
  static std::string page(uint64_t number, uint16_t flags, size_t count,
                          const std::string& content) {
    auto out = header(number, flags, count) + content;
    out.resize(kPage);
    return out;
  }
  uint64_t append(uint16_t flags, size_t count, const std::string& content) {
    auto number = bytes.size() / kPage;
    bytes += page(number, flags, count, content);
    return number;
  }
  static std::string leafContent(const std::vector<std::pair<std::string, std::string>>& entries,
                                 uint32_t flags) {
    std::string elements, data;
    for (auto& [key, value] : entries) {
      auto at = (entries.size() - elements.size() / 16) * 16 + data.size();
      add(elements, flags), add(elements, static_cast<uint32_t>(at));
      add(elements, static_cast<uint32_t>(key.size()));
      add(elements, static_cast<uint32_t>(value.size()));
      data += key + value;
    }
    return elements + data;
  }
};

}  // namespace talos
