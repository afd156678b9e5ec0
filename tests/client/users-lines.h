// The command lines of the users' documents, as users-lines.txt has them: each with its outcome,
// and how it is run on a cluster.
#pragma once

#include <string>
#include <vector>

namespace talos {

struct UsersLine {
  std::string origin;                // the document, and the line in it
  std::string verdict, why;          // "works"; "differs", "refused": why; "named"
  std::string run;                   // "first", "here", "end", "fails", "not", "-"
  std::string reason;                // of "not"
  std::vector<std::string> printed;  // pieces of the line's output
  std::string text;
};

// Throws if a line of the file does not have four columns.
std::vector<UsersLine> readUsersLines(const std::string& path);

// Splits a line as a shell does: quotes, no backslashes.
std::vector<std::string> shellWords(const std::string& line);

// Does the same, without the words before the client's arguments: sudo, and the client's name,
// which the documents misspell at times. Returns an empty list if the line is not one of the
// client.
std::vector<std::string> clientWords(const std::string& line);

}  // namespace talos
