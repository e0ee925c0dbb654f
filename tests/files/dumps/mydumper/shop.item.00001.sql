/*!40101 SET NAMES binary*/;
INSERT INTO `item` VALUES(3,"c");
