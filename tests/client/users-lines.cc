#include "tests/client/users-lines.h"

#include <kj/debug.h>

#include <fstream>
#include <sstream>

namespace talos {
namespace {

// Returns the word before ": ", and the text after it.
std::pair<std::string, std::string> parted(const std::string& text) {
  auto colon = text.find(": ");
  if (colon == std::string::npos) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 2)};
}

std::vector<std::string> pieces(const std::string& text) {
  std::vector<std::string> all;
  for (size_t at = 0; at < text.size();) {
    auto end = std::min(text.find(" | ", at), text.size());
    all.push_back(text.substr(at, end - at));
    at = end + 3;
  }
  return all;
}

}  // namespace

std::vector<UsersLine> readUsersLines(const std::string& path) {
  std::ifstream file(path);
  std::vector<UsersLine> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream columns(line);
    UsersLine parsed;
    std::string verdict, run;
    for (auto* column : {&parsed.origin, &verdict, &run, &parsed.text}) {
      KJ_REQUIRE(bool(std::getline(columns, *column, '\t')), "a column is missing", line.c_str());
    }
    std::tie(parsed.verdict, parsed.why) = parted(verdict);
    std::tie(parsed.run, parsed.reason) = parted(run);
    if (parsed.run != "not") parsed.printed = pieces(std::exchange(parsed.reason, ""));
    lines.push_back(std::move(parsed));
  }
  return lines;
}

std::vector<std::string> shellWords(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool inWord = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    char c = line[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      inWord = true;
    } else if (c == ' ') {
      if (inWord) words.push_back(word);
      word.clear();
      inWord = false;
    } else {
      word += c;
      inWord = true;
    }
  }
  if (inWord) words.push_back(word);
  return words;
}

std::vector<std::string> clientWords(const std::string& line) {
  auto words = shellWords(line);
  while (!words.empty() && (words[0] == "sudo" || words[0] == "-E")) words.erase(words.begin());
  if (words.empty() || (words[0] != "talosctl" && words[0] != "taloctl")) return {};
  words.erase(words.begin());
  return words;
}

}  // namespace talos
