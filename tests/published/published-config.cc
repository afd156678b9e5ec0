#include "tests/published/published-config.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <string.h>

#include <algorithm>
#include <fstream>

namespace talos::published {

std::vector<PublishedConfig> readAll(const std::filesystem::path& folder) {
  std::vector<PublishedConfig> all;
  for (auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    std::ifstream file(entry.path());
    std::string text((std::istreambuf_iterator<char>(file)), {});
    auto mark = text.rfind(kMark), end = text.find('\n', mark);
    if (mark == std::string::npos || end == std::string::npos) {
      ADD_FAILURE() << entry.path() << " does not say its mode";
      continue;
    }
    auto mode = text.substr(mark + strlen(kMark), end - mark - strlen(kMark));
    all.push_back({entry.path(), text.substr(0, mark), mode, text.substr(end + 1)});
  }
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.path < b.path; });
  return all;
}

Placeholders placeholdersFor(const config::Secrets& secrets) {
  Placeholders values;
  auto base64 = [](kj::ArrayPtr<const kj::byte> bytes) {
    return std::string(kj::encodeBase64(bytes).cStr());
  };
  auto add = [&](const std::string& name, const pki::CertificateAndKey& pair) {
    values["@" + name + "_CRT@"] = base64(pair.certificate.asBytes());
    values["@" + name + "_KEY@"] = base64(pair.key.bytes());
  };
  add("OS", secrets.machineAuthority);
  add("K8S", secrets.kubernetesAuthority);
  add("AGG", secrets.aggregatorAuthority);
  add("ETCD", secrets.etcdAuthority);
  values["@SA_KEY@"] = base64(secrets.serviceAccountKey.bytes());
  values["@SECRET@"] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
  return values;
}

std::string filled(std::string text, const Placeholders& placeholders) {
  for (auto& [placeholder, value] : placeholders) {
    for (size_t at = 0; (at = text.find(placeholder, at)) != std::string::npos; at += value.size())
      text.replace(at, placeholder.size(), value);
  }
  return text;
}

}  // namespace talos::published
