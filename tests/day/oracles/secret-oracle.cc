#include "tests/day/oracles/secret-oracle.h"

#include <kj/encoding.h>

#include <algorithm>
#include <regex>
#include <sstream>
#include <utility>

namespace talos::day {
namespace {

constexpr size_t kPemLine = 32;  // of base64; the last line of a key may be shorter

std::string unquoted(std::string value) {
  bool isQuoted = value.size() >= 2 && value.front() == value.back() &&
                  (value.front() == '"' || value.front() == '\'');
  return isQuoted ? value.substr(1, value.size() - 2) : value;
}

void addPem(const std::string& name, const std::string& value, std::vector<Secret>& found) {
  auto decoded = kj::decodeBase64(kj::arrayPtr(value.data(), value.size()));
  if (decoded.hadErrors) return;
  std::string pem(decoded.asChars().begin(), decoded.size());
  if (pem.find("PRIVATE KEY-----") == std::string::npos) return;
  std::istringstream lines(pem);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() >= kPemLine && line.front() != '-') found.push_back({name + " as PEM", line});
  }
}

}  // namespace

std::vector<Secret> secretsOf(const std::string& yaml, const std::string& file) {
  static const std::regex field("^( *)(?:- )?([A-Za-z]+):(?: +(\\S.*?))?\\s*$");
  static const std::regex isSecret("token|key|secret|.*(Secret|Token)");
  std::vector<Secret> found;
  std::vector<std::pair<size_t, std::string>> path;  // indentations and keys
  std::istringstream lines(yaml);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, field)) continue;
    auto indentation = size_t(match[1].length());
    while (!path.empty() && path.back().first >= indentation) path.pop_back();
    path.emplace_back(indentation, match[2].str());
    auto value = unquoted(match[3].str());
    auto key = match[2].str();
    if (!std::regex_match(key, isSecret) || value.size() < SecretOracle::kShortest) continue;
    auto name = file + ":";
    for (auto& [at, part] : path) name += (name.back() == ':' ? " " : ".") + part;
    found.push_back({name, value});
    addPem(name, value, found);
  }
  return found;
}

void SecretOracle::add(const Secret& secret) {
  if (secret.value.size() < kShortest) return;
  auto same = [&](auto& each) { return each.value == secret.value; };
  if (!std::ranges::any_of(secrets, same)) secrets.push_back(secret);
}

void SecretOracle::add(const std::vector<Secret>& all) {
  for (auto& secret : all) add(secret);
}

std::string SecretOracle::problem(const std::string& text, const std::string& log) const {
  std::string found;
  for (auto& secret : secrets) {
    auto at = text.find(secret.value);
    if (at == std::string::npos) continue;
    auto line = std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n') + 1;
    found += (found.empty() ? "" : "; ") + secret.name + " is in " + log + ", line " +
             std::to_string(line);
  }
  return found;
}

}  // namespace talos::day
