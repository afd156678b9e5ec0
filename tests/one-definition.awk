# A type is defined once under its name:  awk -f one-definition.awk FILES
#
# Neither compiler nor linker refuses two definitions of one name in different files (C++ [basic.def.odr]), and
# a program then destroys objects with the destructor of the other. clang-format puts what is directly in a
# namespace at the beginning of its line; names in anonymous namespaces belong to their file.
FNR == 1 { space = ""; anonymous = 0 }
/^namespace [a-z0-9_:]+ \{/ { space = $2 }
/^namespace \{/ { anonymous = 1 }
/^}  \/\/ namespace$/ { anonymous = 0 }
/^(class|struct|union|enum|enum class) [A-Za-z0-9_]+[^;<(]*\{/ && !anonymous {
  name = $1 == "enum" && $2 == "class" ? $3 : $2
  name = space "::" name
  if (name in where && where[name] != FILENAME) {
    printf "%s:%d: %s is defined in %s too: give one of them another name\n", FILENAME, FNR, name, where[name]
    failed = 1
  }
  where[name] = FILENAME
}
END { exit failed }
