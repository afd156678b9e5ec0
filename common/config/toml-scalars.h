// Values of TOML that are neither tables nor lists nor texts in quotes, and the characters of keys.
// Pure.
#pragma once

#include <kj/common.h>

#include <string>

#include "common/config/toml.h"

namespace talos::toml {

bool isHex(char c);
bool isBareKey(char c);  // a character of a key without quotes
// Returns true if the text is not empty, and all of its characters are accepted.
bool allOf(const std::string& text, bool (*accepts)(char));

bool isDate(const std::string& text);  // without a time
// Returns the kind of a boolean, a number or a time; nullptr for any other text.
kj::Maybe<Value::Kind> kindOfPlain(const std::string& text);

}  // namespace talos::toml
