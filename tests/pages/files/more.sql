INSERT INTO parcel (weight) VALUES (3), (5);
